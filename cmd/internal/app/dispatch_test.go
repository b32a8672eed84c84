package app

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// What each kind of processor runs by default, by the features that its kernel lists and that execute. A
// part that a hypervisor or the system hides is a part that is not there.
func TestDefaultBackendOfCPUs(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("amd64 only")
	}
	const (
		v2       = "ssse3 sse4_1 sse4_2 popcnt "
		v3       = v2 + "avx f16c fma bmi1 bmi2 avx2 "
		skylake  = v3 + "avx512f avx512bw avx512cd avx512dq avx512vl "
		icelake  = skylake + "avx512vbmi avx512_vnni gfni "
		sapphire = icelake + "avx512_bf16 avx512_fp16 avx_vnni "
	)
	for cpu, c := range map[string]struct{ features, backend string }{
		"Nehalem":                                   {v2, "generic"},
		"Ivy Bridge, no FMA":                        {v2 + "avx f16c", "generic"},
		"Haswell, Zen 1 to 3":                       {v3, "avx2"},
		"Haswell whose system saves no YMM":         {v2 + "popcnt bmi1 bmi2", "generic"},
		"a hypervisor that hides FMA":               {strings.ReplaceAll(v3, "fma ", ""), "generic"},
		"Alder Lake to Arrow Lake, N100, Sierra":    {v3 + "avx_vnni gfni", "avxvnni"},
		"Skylake-X: no VNNI":                        {skylake, "avx2"},
		"Cascade Lake":                              {skylake + "avx512_vnni", "avx512"},
		"Ice Lake, Tiger Lake":                      {icelake, "avx512"},
		"Zen 4":                                     {icelake + "avx512_bf16", "avx512"},
		"Zen 5":                                     {icelake + "avx512_bf16 avx_vnni", "avx512"},
		"Sapphire Rapids":                           {sapphire + "amx_tile amx_int8 amx_bf16", "avx512"},
		"Emerald Rapids, parts hidden":              {icelake, "avx512"},
		"Ice Lake whose system saves no ZMM":        {v3 + "gfni", "avx2"},
		"Sapphire Rapids whose system saves no ZMM": {v3 + "gfni avx_vnni", "avxvnni"},
		"AVX-512 VNNI hidden, AVX-VNNI not":         {skylake + "avx_vnni", "avxvnni"},
		"AVX-512 VL hidden":                         {strings.ReplaceAll(icelake, "avx512vl ", ""), "avx2"},
	} {
		t.Run(cpu, func(t *testing.T) {
			s := kernel.Suite{Host: kernel.NewFeatures(strings.Fields(c.features)...), Backends: Builtins()}
			for _, f := range []kernel.Format{kernel.Asym(128), kernel.FormatQ4_0, kernel.FormatQ8_0, kernel.FormatQ4_K, kernel.FormatQ6_K} {
				l, err := s.Layout(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, arith := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
					for _, m := range kernel.MPoints {
						p := kernel.Problem{Op: kernel.OpLinear, Arith: arith, M: m, N: 2048, K: 2048, Format: f, Layout: l,
							Act: kernel.Act{Arith: arith, Group: f.Group}}
						checkDefault(t, s, p, c.backend)
					}
				}
			}
			for _, p := range []kernel.Problem{{Op: kernel.OpPeak, Arith: kernel.A8}, {Op: kernel.OpStream}, {Op: kernel.OpScale},
				{Op: kernel.OpAttn, M: 4, Dim: 128, Elem: kernel.ElemF16}} {
				checkDefault(t, s, p, c.backend)
			}
		})
	}
}

// checkDefault emits the default of a problem: it must be the backend's, and valid on the host.
func checkDefault(t *testing.T, s kernel.Suite, p kernel.Problem, backend string) {
	t.Helper()
	choice, err := s.Default(t.Context(), p)
	if err != nil || choice.Backend != backend {
		t.Errorf("%s: default of %q, want %q (%v)", p, choice.Backend, backend, err)
		return
	}
	a, err := s.Emit(t.Context(), choice)
	if err != nil {
		t.Error(err)
	} else if err := a.Validate(s.Host); err != nil {
		t.Error(err)
	}
}
