package x86

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// exhaustive runs every problem and more configurations: minutes instead of seconds.
var exhaustive = flag.Bool("exhaustive", false, "test every linear problem and many configurations")

// every is the stride through n cases that a quick run takes.
func every(quick int) int {
	if *exhaustive {
		return 1
	}
	return quick
}

// guardPages allocates operands that end where an inaccessible page begins.
type guardPages struct{ mems []*jit.Mem }

func (g *guardPages) Alloc(n int) (kerneltest.Buffer, error) {
	m, err := jit.GuardBytes(max(n, 1))
	if err != nil {
		return kerneltest.Buffer{}, err
	}
	g.mems = append(g.mems, m)
	b := m.Bytes()[max(n, 1)-n:]
	return kerneltest.Buffer{Mem: b, Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))}, nil
}

func (g *guardPages) Reset() error {
	for _, m := range g.mems {
		m.Free()
	}
	g.mems = nil
	return nil
}

// testBackend is the backend of an ISA.
func testBackend(isa ISA) Backend {
	return Backend{ISA: isa, ID: kernel.BackendID{Name: isa.Name, Digest: "test"}}
}

func spaceOf(t testing.TB, isa ISA, p kernel.Problem) kernel.Space {
	t.Helper()
	s, err := testBackend(isa).Space(context.Background(), isa.Features, p)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return s
}

func emit(t testing.TB, isa ISA, p kernel.Problem, c kernel.Config) *kernel.Artifact {
	t.Helper()
	a, err := testBackend(isa).Emit(context.Background(), isa.Features, p, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Validate(isa.Features); err != nil {
		t.Fatal(err)
	}
	return a
}

// load maps an artifact; its entries are callable until the test ends.
func load(t testing.TB, a *kernel.Artifact) kerneltest.Funcs {
	t.Helper()
	code, err := jit.MapArtifact(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(code.Free)
	fs := kerneltest.Funcs{}
	for name := range a.Entries {
		fs[name], _ = code.Func(name)
	}
	return fs
}

// sample draws up to n distinct configurations of a space, the default first.
func sample(r *rand.Rand, s kernel.Space, n int) []kernel.Config {
	out := []kernel.Config{s.Default()}
	seen := map[string]bool{out[0].String(): true}
	for tries := 0; len(out) < n && tries < 50*n; tries++ {
		c := kernel.Config{}
		for _, p := range s.Params {
			c[p.Name] = p.Values[r.IntN(len(p.Values))]
		}
		if s.Check(c) == nil && !seen[c.String()] {
			seen[c.String()] = true
			out = append(out, c)
		}
	}
	return out
}

// linearProblems is every format, arithmetic, layout and M point, on ragged N.
func linearProblems() []kernel.Problem {
	var formats []kernel.Format
	for _, bits := range []int{4, 8} {
		for _, g := range []int{16, 32, 64, 128} {
			for i, bias := range []int{0, 8, 32, 128} {
				f := kernel.Format{Bits: bits, Group: g, Bias: bias, Offset: i%2 == 0, Scale: kernel.ScaleF16}
				if bits == 4 && bias > 8 {
					f.Bias, f.Offset = 8*(i-2), i == 3
				}
				if i%3 == 1 && g != 32 {
					f.Scale = kernel.ScaleBF16
				}
				formats = append(formats, f)
			}
		}
	}
	formats = append(formats, kernel.Format{Bits: 6, Group: 64, Bias: 32, Scale: kernel.ScaleBF16},
		kernel.FormatQ2_K, kernel.FormatQ3_K, kernel.FormatQ4_K, kernel.FormatQ5_K, kernel.FormatQ6_K)
	formats = append(formats, kernel.FormatF16, kernel.FormatBF16, kernel.FormatF32)
	var out []kernel.Problem
	for _, f := range formats {
		for _, arith := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
			if f.IsFloat() && arith != kernel.F32 {
				continue
			}
			for _, cols := range []int{1, 2, 4} {
				for _, m := range kernel.MPoints {
					k := 2 * max(f.Group, 64)
					switch {
					case f.IsFloat():
						k = 88
					case f.Super != kernel.SuperNone:
						k = kernel.SuperGroup * (1 + m%3)
					}
					out = append(out, kernel.Problem{Op: kernel.OpLinear, Arith: arith, M: m, N: 16*cols*3 - 5, K: k,
						Format: f, Layout: kernel.Layout{Lanes: 16, Cols: cols}})
				}
			}
		}
	}
	return out
}

// Every configuration that a space allows can be emitted: constraints know the register file.
func TestLinearEmits(t *testing.T) {
	for _, s := range isas {
		t.Run(s.isa.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 1))
			n := 0
			for i, p := range linearProblems() {
				if i%every(7) != 0 {
					continue
				}
				space := spaceOf(t, s.isa, p)
				for _, c := range sample(r, space, 6) {
					n++
					if _, err := emitLinear(s.isa, p, c); err != nil {
						t.Fatalf("%s [%s]: %v", p, c, err)
					}
				}
			}
			t.Logf("%d configurations", n)
		})
	}
}

// Every problem in some configurations against the oracle, on guarded memory.
func TestLinear(t *testing.T) {
	eachISA(t, func(t *testing.T, isa ISA) {
		for i, p := range linearProblems() {
			if i%every(17) != 0 {
				continue
			}
			r := rand.New(rand.NewPCG(2, uint64(i)))
			for _, c := range sample(r, spaceOf(t, isa, p), 2) {
				a := emit(t, isa, p, c)
				kerneltest.Test(t, &guardPages{}, load(t, a), a)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	})
}

// Many configurations of the problems that matter most.
func TestLinearConfigs(t *testing.T) {
	eachISA(t, func(t *testing.T, isa ISA) {
		for _, f := range []kernel.Format{kernel.FormatQ4_0, kernel.FormatQ4_1, kernel.Asym(128), kernel.FormatQ8_0,
			kernel.FormatQ4_K, kernel.FormatQ6_K} {
			for _, m := range []int{1, 4, 512} {
				t.Run(fmt.Sprintf("%s/m%d", f, m), func(t *testing.T) {
					p := kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: m, N: 90, K: max(128, f.Unit()), Format: f,
						Layout: kernel.Layout{Lanes: 16, Cols: 2}}
					r := rand.New(rand.NewPCG(3, uint64(m)))
					for _, c := range sample(r, spaceOf(t, isa, p), 20/every(10)) {
						a := emit(t, isa, p, c)
						kerneltest.Test(t, &guardPages{}, load(t, a), a)
					}
				})
			}
		}
	})
}

// Int32 accumulators in scratch memory: groups that are one iteration and groups of several, with and
// without a start at the debt of a bias.
func TestLinearScratch(t *testing.T) {
	p := kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 512, N: 40, K: 256, Layout: kernel.Layout{Lanes: 16, Cols: 1}}
	for _, f := range []kernel.Format{kernel.Asym(128), {Bits: 4, Group: 64, Bias: 8, Scale: kernel.ScaleF16}} {
		p.Format = f
		s := spaceOf(t, AVX2, p)
		for _, ku := range []int64{32, 64, 128} {
			c := s.Default()
			c[parKU] = ku
			if s.Check(c) != nil {
				continue
			}
			a := emit(t, AVX2, p, c)
			if a.Exec.ScratchBytes == 0 {
				t.Errorf("%s [%s] takes no scratch memory", p, c)
			}
			if isas[0].native {
				kerneltest.Test(t, &guardPages{}, load(t, a), a)
			}
		}
	}
}
