package bochs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	. "github.com/tilewright/tilewright/kernel/asm/amd64"
)

// args is the argument block of the tests.
type args struct {
	A, B, Out unsafe.Pointer
	N         int64
}

// emit assembles a function that finds A, B, Out and N in RSI, RDX, RCX and R8.
func emit(t *testing.T, body func(a *Asm)) []byte {
	t.Helper()
	var a Asm
	for i, r := range []Reg{RSI, RDX, RCX, R8} {
		a.Load(r, M(RDI, 8*i))
	}
	body(&a)
	a.Ret()
	code := a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	return code
}

// add is a call on 64 bytes at A and B that must write 16 dwords to out.
func add(t *testing.T, b *Batch, code []byte, x []byte, y []int8, out []int32) *Result {
	t.Helper()
	r, err := b.Call(code, 0, &args{unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), unsafe.Pointer(&out[0]), 7}, x, y, out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func operands() (x []byte, y []int8, out []int32) {
	x, y, out = make([]byte, 64), make([]int8, 64), make([]int32, 16)
	for i := range x {
		x[i], y[i] = byte(255-3*i), int8(5*i-128)
	}
	return x, y, out
}

func dot(x []byte, y []int8, lane, bcast int) (s int32) {
	for i := range 4 {
		s += int32(x[4*lane+i]) * int32(y[4*bcast+i])
	}
	return s
}

func TestInstructions(t *testing.T) {
	Need(t)
	tests := []struct {
		name string
		body func(a *Asm)
		want func(x []byte, y []int8, lane int) int32
	}{
		{"vpdpbusd zmm", func(a *Asm) {
			a.Op(VPXORD, Z(31), Z(31), Z(31))
			a.Op(VMOVDQU32, Z(16), M(RSI, 0))
			a.Op(VPDPBUSD, Z(31), Z(16), M(RDX, 0))
			a.Op(VMOVDQU32S, M(RCX, 0), Z(31))
		}, func(x []byte, y []int8, l int) int32 { return dot(x, y, l, l) }},
		{"embedded broadcast", func(a *Asm) {
			a.Op(VPXORD, Z(1), Z(1), Z(1))
			a.Op(VMOVDQU32, Z(2), M(RSI, 0))
			a.Op(VPDPBUSD, Z(1), Z(2), M(RDX, 12).Bcast())
			a.Op(VMOVUPSS, M(RCX, 0), Z(1))
		}, func(x []byte, y []int8, l int) int32 { return dot(x, y, l, 3) }},
		{"zeroing and merging masks", func(a *Asm) {
			a.MovI(RAX, 0x0f0f)
			a.KmovW(1, RAX)
			a.Op(VMOVDQU32, Z(3), M(RSI, 0), KReg(1), ZeroMask)
			a.MovI(RAX, 0x3)
			a.KmovW(2, RAX)
			a.MovI(RAX, 77)
			a.Op(VPBROADCASTDR, Z(3), RAX, KReg(2))
			a.Op(VMOVUPSS, M(RCX, 0), Z(3))
		}, func(x []byte, _ []int8, l int) int32 {
			switch {
			case l < 2:
				return 77
			case l&4 != 0:
				return 0
			}
			return int32(x[4*l]) | int32(x[4*l+1])<<8 | int32(x[4*l+2])<<16 | int32(x[4*l+3])<<24
		}},
		{"constant pool, loop", func(a *Asm) {
			a.Op(VPXORD, Z(0), Z(0), Z(0))
			loop := a.Here()
			a.Op(VPADDD, Z(0), Z(0), a.Const([]byte{3, 0, 0, 0}).Bcast())
			a.Dec(R8)
			a.Jcc(CcNE, loop)
			a.Op(VMOVUPSS, M(RCX, 0), Z(0))
		}, func([]byte, []int8, int) int32 { return 21 }},
		{"down-convert and compare", func(a *Asm) {
			a.Op(VPMOVSXBD, Z(5), M(RDX, 16))
			a.Op(VPXORD, Z(6), Z(6), Z(6))
			a.Op(VPCMPGTD, KReg(3), Z(6), Z(5)) // 0 > y
			a.Op(VPBLENDMD, Z(5), Z(5), Z(6), KReg(3))
			a.Op(VPMOVDB, X(7), Z(5))
			a.Op(VPMOVZXBD, Z(8), X(7))
			a.Op(VMOVUPSS, M(RCX, 0), Z(8))
		}, func(_ []byte, y []int8, l int) int32 { return max(int32(y[16+l]), 0) }},
	}
	var b Batch
	outs := make([][]int32, len(tests))
	for i, test := range tests {
		var x []byte
		var y []int8
		x, y, outs[i] = operands()
		add(t, &b, emit(t, test.body), x, y, outs[i])
	}
	b.RunTest(t)
	x, y, _ := operands()
	for i, test := range tests {
		for l, got := range outs[i] {
			if want := test.want(x, y, l); got != want {
				t.Errorf("%s: lane %d is %d, want %d", test.name, l, got, want)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	Need(t)
	tests := []struct {
		name, want string
		body       func(a *Asm)
	}{
		{"undefined", "undefined instruction (vector 6, code 0x0) at code offset 0xf", func(a *Asm) { a.Ud2() }},
		{"no bf16 on this model", "undefined instruction", func(a *Asm) { a.Op(VDPBF16PS, Z(0), Z(1), Z(2)) }},
		{"read behind", "reading 0x", func(a *Asm) { a.Op(VMOVUPS, Z(0), M(RSI, 4)) }},
		{"where", "0 bytes after the end of buffer 9, a []uint8 of 64 bytes", func(a *Asm) { a.Load8(RAX, M(RSI, 64)) }},
		{"write behind", "writing 0x", func(a *Asm) { a.Store32(M(RCX, 64), RAX) }},
		{"null", "page fault", func(a *Asm) { a.MovI(RAX, 0); a.Load(RAX, M(RAX, 0)) }},
		{"write to code", "writing", func(a *Asm) { a.Load(RAX, M(RSP, 0)); a.Lea(RAX, a.Const([]byte{1})); a.Store(M(RAX, 0), RAX) }},
		{"stack", "the stack: kernels must not use it", func(a *Asm) { a.Store(M(RSP, -8), RAX) }},
		{"misaligned", "general protection", func(a *Asm) { a.Op(VMOVAPS, Z(0), M(RSI, -4)) }},
		{"rbp", "changed RBP", func(a *Asm) { a.MovI(RBP, 1) }},
		{"fine", "", func(a *Asm) { a.Op(VMOVUPSS, M(RCX, 0), Z(30)) }},
	}
	var b Batch
	var results []*Result
	var out []int32
	for _, test := range tests {
		var x []byte
		var y []int8
		x, y, out = operands()
		results = append(results, add(t, &b, emit(t, test.body), x, y, out))
	}
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, test := range tests {
		got := ""
		if results[i].Fault != nil {
			got = results[i].Fault.Error()
		}
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if out[15] != -1 || results[len(results)-1].MXCSR&0x1f80 != 0x1f80 {
		t.Errorf("after faults a good call gave %v, mxcsr %#x", out, results[len(results)-1].MXCSR)
	}
}

// A write into the slack of a buffer's own page, where no page boundary can catch it.
func TestSlack(t *testing.T) {
	Need(t)
	x, y, out := operands()
	var b Batch
	add(t, &b, emit(t, func(a *Asm) { a.Store8(M(RCX, -1), RAX) }), x, y, out)
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "was written at offset -1") {
		t.Fatal(err)
	}
}

func TestHang(t *testing.T) {
	Need(t)
	x, y, out := operands()
	var b Batch
	add(t, &b, emit(t, func(a *Asm) { a.Jmp(a.Here()) }), x, y, out)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := b.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestMisuse(t *testing.T) {
	x, y, _ := operands()
	var b Batch
	for _, c := range []struct {
		want string
		args any
		bufs []any
	}{
		{"field A points into no buffer", &args{A: unsafe.Pointer(&x[0])}, nil},
		{"want a struct", 7, nil},
		{"want unsafe.Pointer or int64", &struct{ X int32 }{}, nil},
		{"want a slice", &args{}, []any{7}},
		{"overlap", &args{}, []any{y[:8], y[4:]}},
		{"alignment", &args{}, []any{Align(x, 3)}},
	} {
		if _, err := b.Call([]byte{0xc3}, 0, c.args, c.bufs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	Need(b)
	for b.Loop() {
		var batch Batch
		if _, err := batch.Call([]byte{0xc3}, 0, &args{}); err != nil {
			b.Fatal(err)
		}
		if err := batch.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
