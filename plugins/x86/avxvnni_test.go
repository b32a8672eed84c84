package x86

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/internal/bochs"
	"github.com/tilewright/tilewright/internal/objdump"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// No emulator at hand runs VEX-encoded dot products. So what is not one is shown to be the code of AVX2,
// which is tested elsewhere, and the rest runs in EVEX encodings of the same instructions on the same
// registers.

// Ops other than products of matrices, and products in floats, are those of AVX2 byte for byte.
func TestVNNIDiffersInDots(t *testing.T) {
	ps := append(kerneltest.QuantProblems(), kerneltest.RopeProblems()...)
	ps = append(append(ps, kerneltest.AttnProblems()...), blockProblems...)
	ps = append(ps, kernel.Problem{Op: kernel.OpScale}, kernel.Problem{Op: kernel.OpStream}, kernel.Problem{Op: kernel.OpPeak, Arith: kernel.F32})
	ps = append(ps, kernel.Problem{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: kernel.Layout{Lanes: 16, Cols: 2}})
	for i, p := range linearProblems() {
		if p.Arith == kernel.F32 && i%every(7) == 0 {
			ps = append(ps, p)
		}
	}
	for _, p := range ps {
		c := spaceOf(t, AVX2, p).Default()
		if a, b := emit(t, AVX2, p, c), emit(t, AVXVNNI, p, c); !bytes.Equal(a.Code, b.Code) || a.Exec != b.Exec {
			t.Errorf("%s [%s] differs from AVX2", p, c)
		}
	}
}

// evexForm is an artifact of AVXVNNI in EVEX encodings where its instructions have them.
func evexForm(t testing.TB, a *kernel.Artifact) *kernel.Artifact {
	entries := newTile(AVXVNNI, a.Key.Problem, a.Key.Config).entries()
	for _, e := range entries {
		e.emitter.VEXOnly = false
	}
	code, err := assemble(entries)
	if err != nil {
		t.Fatal(err)
	}
	b := *a
	b.Code, b.Entries = code.Bytes, code.Entries
	return &b
}

func TestVNNIEmulated(t *testing.T) {
	bochs.Need(t)
	r := rand.New(rand.NewPCG(9, 9))
	var b bochs.Batch
	var queue []*emulated
	for i, p := range linearProblems() {
		if i%every(29) != 0 || p.Arith == kernel.F32 {
			continue
		}
		for _, c := range sample(r, spaceOf(t, AVXVNNI, p), 3) {
			a := emit(t, AVXVNNI, p, c)
			long := evexForm(t, a)
			if i%every(5*29) == 0 {
				sameInstructions(t, a, long)
			}
			e := newEmulated(t, r, long)
			e.add(t, &b)
			queue = append(queue, e)
		}
	}
	b.RunTest(t)
	for _, e := range queue {
		if err := e.check(); err != nil {
			t.Errorf("%s [%s]: %v", e.p, e.a.Key.Config, err)
		}
	}
	t.Logf("%d artifacts", len(queue))
}

// sameInstructions compares the entries of two encodings.
func sameInstructions(t *testing.T, a, b *kernel.Artifact) {
	dots := 0
	for name := range a.Entries {
		x, y := listing(t, a, name), listing(t, b, name)
		if len(x) != len(y) {
			t.Fatalf("%s: entry %s has %d and %d instructions", a.Key.Problem, name, len(x), len(y))
		}
		for i := range x {
			if strings.HasPrefix(x[i], "{vex} vpdp") {
				dots++
			}
			if l, m := strings.TrimPrefix(x[i], "{vex} "), strings.TrimPrefix(y[i], "{evex} "); l != m {
				t.Fatalf("%s, entry %s: %q and %q", a.Key.Problem, name, l, m)
			}
		}
	}
	if dots == 0 {
		t.Errorf("%s [%s] has no VEX-encoded dot product", a.Key.Problem, a.Key.Config)
	}
}

// places are what moves with the length of the code: addresses of constants and of branches.
var places = regexp.MustCompile(`(0x[0-9a-f]+\(%rip\).*|^(j[a-z]+ )0x[0-9a-f]+)$`)

// listing is an entry up to its return, without places and padding.
func listing(t *testing.T, a *kernel.Artifact, entry string) []string {
	lines, err := objdump.Disassemble(context.Background(), a.Code, a.Entries[entry], objdump.AMD64)
	if err != nil {
		t.Skip("objdump: ", err)
	}
	lines = slices.DeleteFunc(lines, func(l objdump.Line) bool { return strings.Contains(l.Text, "nop") || l.Text == "xchg %ax,%ax" })
	instruction := func(at int) int {
		return slices.IndexFunc(lines, func(l objdump.Line) bool { return l.Offset >= at })
	}
	var out []string
	for _, l := range lines {
		text := places.ReplaceAllString(l.Text, "$2")
		if strings.HasPrefix(text, "j") {
			var to int
			fmt.Sscanf(l.Text[len(text):], "0x%x", &to)
			text += fmt.Sprint("instruction ", instruction(to))
		}
		if out = append(out, text); text == "ret" {
			break
		}
	}
	return out
}
