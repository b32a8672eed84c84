// Package x86 generates the machine code of the amd64 backends. Every generator is written once and
// parametrised by an ISA: AVX2 (VEX, 16 registers of 8 lanes), the same with AVX-VNNI, or AVX512 (EVEX,
// 32 registers of 16 lanes). All read the same weight layouts: a run of 16 dwords is one zmm or two ymm.
package x86

import (
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// ISA is a vector instruction set that generators target.
type ISA struct {
	Name     string
	Lanes    int             // dwords of a vector
	Regs     int             // vector registers
	EVEX     bool            // masks, embedded broadcast, ternary logic, registers 16 to 31
	VNNI     bool            // dot products that accumulate to int32: VPDPBUSD and VPDPWSSD
	L2       int             // KiB of second-level cache of a core, 0 if unknown: defaults follow it, code does not
	Features kernel.Features // what the code needs, sorted
}

var (
	// AVX2 is Haswell and Zen onwards.
	AVX2 = ISA{Name: "avx2", Lanes: 8, Regs: 16, Features: kernel.NewFeatures("avx2", "f16c", "fma")}
	// AVXVNNI is Alder Lake, Sierra Forest and their successors: AVX2 with the dot products, VEX-encoded.
	AVXVNNI = ISA{Name: "avxvnni", Lanes: 8, Regs: 16, VNNI: true, Features: kernel.NewFeatures("avx2", "avx_vnni", "f16c", "fma")}
	// AVX512 is Ice Lake and Zen 4 onwards. AVX2's features are implied by these in hardware.
	AVX512 = ISA{Name: "avx512", Lanes: 16, Regs: 32, EVEX: true, VNNI: true,
		Features: kernel.NewFeatures("avx512f", "avx512bw", "avx512vl", "avx512_vnni")}
)

// Bytes is the size of a vector.
func (s ISA) Bytes() int { return 4 * s.Lanes }

// Halves is the number of vectors of one run of 16 dwords: 1 or 2.
func (s ISA) Halves() int { return 16 / s.Lanes }

// Reg names vector register n at the ISA's full width.
func (s ISA) Reg(n int) amd64.Vec {
	if s.EVEX {
		return amd64.Z(n)
	}
	return amd64.Y(n)
}

// Half is the lower half of a vector register: 16-bit elements of a full vector of dwords.
func Half(v amd64.Vec) amd64.Vec { return amd64.Vec{N: v.N, L: v.L - 1} }

// Low is the lowest 128 bits of a vector register.
func Low(v amd64.Vec) amd64.Vec { return amd64.X(int(v.N)) }

// Supported reports the features of s that host lacks.
func (s ISA) Supported(host kernel.Features) (missing []string) {
	return slices.Clone(host.Missing(s.Features))
}
