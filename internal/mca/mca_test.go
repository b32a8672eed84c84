package mca

import (
	"os/exec"
	"testing"

	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// nested is a loop of 3 with one of 4 within, and a branch on an argument that is not known.
func nested(t *testing.T) []Inst {
	t.Helper()
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("mca: objdump is not installed")
	}
	a := &amd64.Asm{}
	top := a.Here()
	a.MovI(amd64.RAX, 3)
	outer := a.Here()
	a.MovI(amd64.RCX, 4)
	inner := a.Here()
	a.Op(amd64.VPADDD, amd64.Z(1), amd64.Z(1), amd64.Z(2))
	a.Dec(amd64.RCX)
	a.Jcc(amd64.CcNE, inner)
	a.Op(amd64.VMOVUPS, amd64.Z(20), amd64.M(amd64.RSI, 64))
	a.Op(amd64.VMOVUPSS, amd64.M(amd64.RSI, 64), amd64.Z(1))
	a.Dec(amd64.RAX)
	a.Jcc(amd64.CcNE, outer)
	a.Load(amd64.RDX, amd64.M(amd64.RDI, 8))
	a.Dec(amd64.RDX)
	a.Jcc(amd64.CcNE, top)
	a.Ret()
	code, err := Disassemble(t.Context(), a.Finish(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestTrace(t *testing.T) {
	code := nested(t)
	for _, c := range []struct {
		memory map[string]int64
		n      int
	}{{nil, 1 + 3*(1+4*3+4) + 3}, {map[string]int64{"0x8(%rdi)": 1}, 1 + 3*(1+4*3+4) + 3}} {
		seq, err := Trace(code, c.memory)
		if err != nil || len(seq) != c.n {
			t.Errorf("%d instructions, want %d: %v", len(seq), c.n, err)
		}
	}
	if _, err := Trace(code, map[string]int64{"0x8(%rdi)": 2}); err == nil {
		t.Error("an endless loop ended")
	}
}

func TestPredict(t *testing.T) {
	seq, err := Trace(nested(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Tool(); err != nil {
		t.Skip("mca: ", err)
	}
	p, err := Predict("cascadelake", seq)
	if err != nil {
		t.Fatal(err)
	}
	if p.Instructions != len(seq) || p.Loads != 3+1 || p.Cycles < 12 || p.Uops < len(seq) {
		t.Errorf("%+v", p)
	}
	if _, err := Predict("pdp-11", seq); err == nil {
		t.Error("a processor that no model is of was accepted")
	}
}
