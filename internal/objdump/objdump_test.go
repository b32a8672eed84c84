package objdump

import (
	"os/exec"
	"slices"
	"testing"
)

func TestDisassemble(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("objdump is not installed")
	}
	code := []byte{0x90, 0x48, 0x01, 0xd8, 0xc3} // nop; add; ret
	all := []Line{{0, "nop"}, {1, "add %rbx,%rax"}, {4, "ret"}}
	for from, want := range map[int][]Line{0: all, 1: all[1:]} {
		if got, err := Disassemble(t.Context(), code, from, AMD64); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %d: %v, %v", from, got, err)
		}
	}
	if _, err := Disassemble(t.Context(), code, len(code), AMD64); err == nil {
		t.Error("nothing to disassemble is no error")
	}
}
