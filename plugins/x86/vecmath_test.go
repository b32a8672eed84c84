package x86

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
	"github.com/tilewright/tilewright/kernel/ref"
)

// apply returns f of x, a vector at a time; the length of x is a multiple of 16.
func apply(t *rig, in []float32, f func(e *Emitter, v amd64.Vec)) []float32 {
	t.Helper()
	e := NewEmitter(t.isa)
	v := e.Vec()
	e.arg(amd64.RSI, unsafe.Offsetof(kernel.ScaleArgs{}.X))
	e.times(amd64.RCX, len(in)/t.isa.Lanes, func() {
		e.LoadV(v, amd64.M(amd64.RSI, 0))
		f(e, v)
		e.StoreV(amd64.M(amd64.RSI, 0), v)
		e.AddI(amd64.RSI, t.isa.Bytes())
	})
	e.Ret()
	code, err := finish(e, kernel.Exec{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Free() != t.isa.Regs-1 {
		t.Fatalf("%d registers leaked", t.isa.Regs-1-e.Free())
	}
	x := guarded[float32](t, len(in))
	copy(x, in)
	_, args := newArgs(t, kernel.ScaleArgs{X: ptr(x)})
	if t.batch != nil {
		t.call(code.Bytes, kernel.OpScale, args)
	} else {
		mapped(t, code.Bytes)(args)
	}
	return x
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
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := map[float32]float32{0: 1, -inf: 0, -100: 0, -88: 0, -1e30: 0, 100: inf, inf: inf}
	eachRig(t, func(t *rig) {
		in := ramp(-87.3, 88.2, 1<<15)
		x := apply(t, in, func(e *Emitter, v amd64.Vec) { e.exp(v) })
		t.check(func() error {
			worst := 0.0
			for i, v := range x {
				want := math.Exp(float64(in[i]))
				worst = max(worst, math.Abs(float64(v)-want)/want)
			}
			return limit("relative error", worst)
		})
		in2 := []float32{nan, -nan}
		for v := range special {
			in2 = append(in2, v)
		}
		in2 = append(in2, make([]float32, 16-len(in2))...)
		y := apply(t, in2, func(e *Emitter, v amd64.Vec) { e.exp(v) })
		t.check(func() error {
			for i, v := range in2 {
				if want, ok := special[v]; y[i] != want && ok || !ok && y[i] == y[i] {
					return fmt.Errorf("e^%g = %g, want %g", v, y[i], want)
				}
			}
			return nil
		})
	})
}

// limit reports an error of a function above what its comment promises.
func limit(what string, worst float64) error {
	if worst <= 2e-7 {
		return nil
	}
	return fmt.Errorf("%s %.3g", what, worst)
}

func TestErfc(t *testing.T) {
	eachRig(t, func(t *rig) {
		in := ramp(0, 30, 1<<14)
		x := apply(t, in, func(e *Emitter, v amd64.Vec) {
			d := e.Vecs(1)
			e.erfc(d, []amd64.Vec{v})
			e.Move(v, d[0])
			e.Release(d...)
		})
		t.check(func() error {
			worst := 0.0
			for i, v := range x {
				worst = max(worst, math.Abs(float64(v)-math.Erfc(float64(in[i]))))
			}
			return limit("absolute error", worst)
		})
	})
}

func TestGates(t *testing.T) {
	eachRig(t, func(t *rig) {
		for _, g := range []kernel.Gate{kernel.GateSiLU, kernel.GateGELU, kernel.GateGELUTan} {
			in := append(ramp(-20, 20, 1<<14), ramp(-1e4, 1e4, 1<<10)...)
			in = append(in, 0, 1e30, -1e30, 3e38, -3e38, 1e-30, -1e-30, float32(math.NaN()), 0, 0, 0, 0, 0, 0, 0, 0)
			x := apply(t, in, func(e *Emitter, v amd64.Vec) { e.gate(g, v) })
			t.check(func() error {
				for i, v := range in {
					want := ref.Gate(g, float64(v))
					tol := 5e-7*math.Abs(want) + 2e-7*min(math.Abs(float64(v)), 1)
					if d := math.Abs(float64(x[i]) - want); !(d <= tol) && (v == v || x[i] == x[i]) {
						return fmt.Errorf("%s(%g) = %g, want %g", g, v, x[i], want)
					}
				}
				return nil
			})
		}
	})
}
