package amd64

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The golden file holds, for every instruction, the number and digest of all its tested forms and
// the bytes of the first and last of each encoding. It was written when both assemblers agreed, and
// keeps the test meaningful where neither is installed.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, in := range insts {
		n, h := 0, sha256.New()
		var shown []line
		forms(in, func(vexEnc bool, ops []any) {
			a := Asm{VEXOnly: vexEnc}
			a.Op(*in, ops...)
			l := line{text(in, vexEnc, ops), a.Buf}
			h.Write(l.code)
			n++
			if len(shown) < 2 || shown[len(shown)-1].text[:5] != l.text[:5] {
				shown = append(shown, l)
			}
			shown[len(shown)-1] = l
		})
		fmt.Fprintf(&b, "%s: %d forms, %.8x\n", in.Name, n, h.Sum(nil))
		for _, l := range shown {
			fmt.Fprintf(&b, "\t%x  %s\n", l.code, l.text)
		}
	}
	for _, l := range scalarSample() {
		fmt.Fprintf(&b, "%x  %s\n", l.code, l.text)
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
	got, w := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(w)) {
		if i >= len(got) || i >= len(w) || got[i] != w[i] {
			t.Fatalf("%s line %d differs (run with -update after TestAgainstAssemblers passes):\n%s", path, i+1, got[min(i, len(got)-1)])
		}
	}
}

// scalarSample is every scalar instruction with one high register and one address.
func scalarSample() (out []line) {
	emit := func(f func(a *Asm), format string, v ...any) {
		var a Asm
		f(&a)
		out = append(out, line{fmt.Sprintf(format, v...), a.Buf})
	}
	memLines(emit, addresses[17], R10)
	immLines(emit, R11)
	regLines(emit, R9, RDX)
	maskLines(emit, R13)
	tileLines(emit)
	// Maps made the order of instructions random.
	strs := map[string]line{}
	for _, l := range out {
		strs[l.text] = l
	}
	return sortedLines(strs)
}

// Every row of the table files is in insts, and no two rows encode the same.
func TestInstsComplete(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "table_") {
			continue
		}
		src, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		rows += len(regexp.MustCompile(`(?m)^\tV\w+ += Inst\{`).FindAll(src, -1))
	}
	if rows != len(insts) {
		t.Errorf("%d rows in the tables, %d in insts", rows, len(insts))
	}
	seen := map[Inst]bool{}
	for _, in := range insts {
		key := *in
		key.Name = ""
		if seen[key] {
			t.Errorf("%s encodes as another row", in.Name)
		}
		seen[key] = true
	}
}
