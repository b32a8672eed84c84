package x86

import (
	"math"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref"
)

// apply runs a vector function over x, in place, a vector at a time.
func apply(t *testing.T, isa ISA, x []float32, f func(e *Emitter, v amd64.Vec)) {
	t.Helper()
	e := NewEmitter(isa)
	v := e.Vec()
	e.LoadV(v, amd64.M(amd64.RDI, 0))
	f(e, v)
	e.StoreV(amd64.M(amd64.RDI, 0), v)
	e.Ret()
	code, err := finish(e, kernel.Exec{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Free() != isa.Regs-1 {
		t.Fatalf("%d registers leaked", isa.Regs-1-e.Free())
	}
	m, err := jit.Map(code.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	buf := guarded[float32](t, isa.Lanes)
	for i := 0; i < len(x); i += isa.Lanes {
		copy(buf, x[i:])
		m.Call(ptr(buf))
		copy(x[i:], buf)
	}
}

// ramp is n values from lo to hi.
func ramp(lo, hi float64, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(lo + (hi-lo)*float64(i)/float64(n-1))
	}
	return x
}

func TestExp(t *testing.T) {
	eachISA(t, func(t *testing.T, isa ISA) {
		in := ramp(-87.3, 88.2, 1<<17)
		x := append([]float32(nil), in...)
		apply(t, isa, x, func(e *Emitter, v amd64.Vec) { e.exp(v) })
		worst := 0.0
		for i, v := range x {
			want := math.Exp(float64(in[i]))
			worst = max(worst, math.Abs(float64(v)-want)/want)
		}
		if t.Logf("relative error %.3g", worst); worst > 2e-7 {
			t.Errorf("relative error %.3g", worst)
		}
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		x = []float32{0, -inf, -100, -1e30, 100, inf, nan, -88}
		apply(t, isa, x, func(e *Emitter, v amd64.Vec) { e.exp(v) })
		for i, want := range []float32{1, 0, 0, 0, inf, inf, nan, 0} {
			if x[i] != want && (want == want || x[i] == x[i]) {
				t.Errorf("special %d: %g, want %g", i, x[i], want)
			}
		}
	})
}

func TestErfc(t *testing.T) {
	eachISA(t, func(t *testing.T, isa ISA) {
		in := ramp(0, 30, 1<<16)
		x := append([]float32(nil), in...)
		apply(t, isa, x, func(e *Emitter, v amd64.Vec) {
			d := e.Vecs(1)
			e.erfc(d, []amd64.Vec{v})
			e.Move(v, d[0])
			e.Release(d...)
		})
		worst := 0.0
		for i, v := range x {
			worst = max(worst, math.Abs(float64(v)-math.Erfc(float64(in[i]))))
		}
		if t.Logf("absolute error %.3g", worst); !(worst <= 2e-7) {
			t.Errorf("absolute error %.3g", worst)
		}
	})
}

func TestGates(t *testing.T) {
	for _, g := range []kernel.Gate{kernel.GateSiLU, kernel.GateGELU, kernel.GateGELUTan} {
		t.Run(string(g), func(t *testing.T) {
			eachISA(t, func(t *testing.T, isa ISA) {
				in := append(ramp(-20, 20, 1<<16), ramp(-1e4, 1e4, 1<<10)...)
				in = append(in, 0, 1e30, -1e30, 3e38, -3e38, 1e-30, -1e-30, float32(math.NaN()))
				x := append([]float32(nil), in...)
				apply(t, isa, x, func(e *Emitter, v amd64.Vec) { e.gate(g, v) })
				for i, v := range in {
					want := ref.Gate(g, float64(v))
					if v != v {
						want = math.NaN()
					}
					tol := 5e-7*math.Abs(want) + 2e-7*min(math.Abs(float64(v)), 1)
					if d := math.Abs(float64(x[i]) - want); !(d <= tol) && !(want != want && x[i] != x[i]) {
						t.Fatalf("%s(%g) = %g, want %g", g, v, x[i], want)
					}
				}
			})
		})
	}
}
