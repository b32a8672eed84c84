package arm64

import (
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// program emits every instruction with n sets of operands and returns the text of each.
func program(a *Asm, n int) (text []string) {
	r := rand.New(rand.NewSource(1))
	for range n {
		d, n, m, e := V(r.Intn(32)), V(r.Intn(32)), V(r.Intn(32)), uint32(r.Intn(4))
		x, y, o, s := X(r.Intn(31)), X(r.Intn(31)), uint32(r.Intn(4096)), uint32(1+r.Intn(8))
		add := func(f string, v ...any) { text = append(text, fmt.Sprintf(f, v...)) }
		three := func(op func(d, n, m V), name, td, ts string) {
			op(d, n, m)
			add("%s v%d.%s, v%d.%s, v%d.%s", name, d, td, n, ts, m, ts)
		}
		three(a.And, "and", "16b", "16b")
		three(a.Eor, "eor", "16b", "16b")
		three(a.Sdot, "sdot", "4s", "16b")
		three(a.Smmla, "smmla", "4s", "16b")
		three(a.Fmul, "fmul", "4s", "4s")
		three(a.Fmla, "fmla", "4s", "4s")
		a.Tbl(d, n, m)
		add("tbl v%d.16b, {v%d.16b}, v%d.16b", d, n, m)
		a.Ushr8(d, n, s)
		add("ushr v%d.16b, v%d.16b, #%d", d, n, s)
		a.Movi(d, uint8(o))
		add("movi v%d.16b, #%d", d, uint8(o))
		a.SdotE(d, n, m, e)
		add("sdot v%d.4s, v%d.16b, v%d.4b[%d]", d, n, m, e)
		a.FmulE(d, n, m, e)
		add("fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, e)
		a.FmlaE(d, n, m, e)
		add("fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, e)
		a.Scvtf(d, n)
		add("scvtf v%d.4s, v%d.4s", d, n)
		a.Fcvtl(d, n)
		add("fcvtl v%d.4s, v%d.4h", d, n)
		a.Fcvtl2(d, n)
		add("fcvtl2 v%d.4s, v%d.8h", d, n)
		a.Ld1r(d, x)
		add("ld1r {v%d.4s}, [x%d]", d, x)
		a.LdrQ(d, x, 16*o)
		add("ldr q%d, [x%d, #%d]", d, x, 16*o)
		a.StrQ(d, x, 16*o)
		add("str q%d, [x%d, #%d]", d, x, 16*o)
		a.Ldr(x, y, 8*o)
		add("ldr x%d, [x%d, #%d]", x, y, 8*o)
		a.Str(x, y, 8*o)
		add("str x%d, [x%d, #%d]", x, y, 8*o)
		a.Prfm(x, 8*o)
		add("prfm pldl1keep, [x%d, #%d]", x, 8*o)
		a.AddI(x, y, o)
		add("add x%d, x%d, #%d", x, y, o)
		a.SubI(x, y, o)
		add("sub x%d, x%d, #%d", x, y, o)
		a.Movz(x, uint16(o))
		add("mov x%d, #%d", x, o)
		at := len(a.Buf)
		l := a.Here()
		a.Cbnz(y, l)
		add(".L%d: cbnz x%d, .L%d", at, y, at)
		a.Ret()
		add("ret")
	}
	return text
}

func TestAgainstLLVM(t *testing.T) {
	if _, err := exec.LookPath("llvm-mc"); err != nil {
		t.Skip("llvm-mc is not installed")
	}
	var a Asm
	text := program(&a, 200)
	code := a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	src, obj := filepath.Join(t.TempDir(), "a.s"), filepath.Join(t.TempDir(), "a.o")
	if err := os.WriteFile(src, []byte(strings.Join(text, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("llvm-mc", "-triple=aarch64", "-mattr=+v8.6a", "-filetype=obj", "-o", obj, src)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	f, err := elf.Open(obj)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range text {
		if !bytes.Equal(got[4*i:4*i+4], code[4*i:4*i+4]) {
			t.Errorf("%s: ours % x, llvm % x", s, code[4*i:4*i+4], got[4*i:4*i+4])
		}
	}
}

func TestGolden(t *testing.T) {
	var a Asm
	text := program(&a, 2)
	code := a.Finish()
	var b strings.Builder
	for i, s := range text {
		fmt.Fprintf(&b, "%x %s\n", code[4*i:4*i+4], s)
	}
	const path = "testdata/forms.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("encodings differ from %s:\n%s", path, b.String())
	}
}

func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(a *Asm){
		"unbound":   func(a *Asm) { a.Cbnz(1, a.NewLabel()) },
		"foreign":   func(a *Asm) { a.Cbnz(1, 7) },
		"twice":     func(a *Asm) { a.Bind(a.Here()) },
		"vector":    func(a *Asm) { a.And(32, 0, 0) },
		"general":   func(a *Asm) { a.AddI(0, 32, 1) },
		"immediate": func(a *Asm) { a.AddI(0, 1, 4096) },
		"unaligned": func(a *Asm) { a.LdrQ(0, 1, 8) },
		"element":   func(a *Asm) { a.SdotE(0, 1, 2, 4) },
		"shift":     func(a *Asm) { a.Ushr8(0, 1, 9) },
		"far": func(a *Asm) {
			l := a.Here()
			a.Buf = append(a.Buf, make([]byte, 2<<20)...)
			a.Cbnz(1, l)
		},
	} {
		var a Asm
		f(&a)
		if code := a.Finish(); code != nil || a.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
