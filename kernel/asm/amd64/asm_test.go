package amd64

import (
	"bytes"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// assemblers turn Intel-syntax text into an object file: args are followed by output and input.
var assemblers = map[string][]string{
	"as":      {"--64", "-msyntax=intel", "-mnaked-reg", "-o"},
	"llvm-mc": {"-triple=x86_64", "-x86-asm-syntax=intel", "-filetype=obj", "-mattr=+amx-tile,+amx-int8,+amx-bf16", "-o"},
}

// differs are the forms on which a tool has another opinion: LLVM 14 does not parse one of them, GNU
// as prefers an encoding through the general-register form of vmovq.
var differs = map[string]*regexp.Regexp{
	"llvm-mc": regexp.MustCompile(`vgf2p8affineqb.*1to`),
	"as":      regexp.MustCompile(`\{evex} vmovq .*ptr`),
}

// assemble runs one assembler over all lines at once and returns the bytes of .text.
func assemble(t *testing.T, tool string, lines []line) []byte {
	t.Helper()
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o")
	var b strings.Builder
	if tool == "llvm-mc" {
		b.WriteString(".intel_syntax noprefix\n")
	}
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	if err := os.WriteFile(src, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, append(assemblers[tool], obj, src)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%.4000s", tool, err, out)
	}
	f, err := elf.Open(obj)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// compare wants the assembler's bytes to be ours, and reports the first instruction that differs.
func compare(t *testing.T, tool string, lines []line) {
	got := assemble(t, tool, lines)
	for off := 0; len(lines) > 0; {
		l := lines[0]
		lines = lines[1:]
		end := off + len(l.code)
		if end > len(got) || !bytes.Equal(got[off:end], l.code) {
			t.Errorf("%s\n  ours % x\n  %s % x", l.text, l.code, tool, got[off:min(off+14, len(got))])
			return
		}
		off = end
	}
}

func TestAgainstAssemblers(t *testing.T) {
	lines := append(vectorLines(t.Errorf), scalarLines()...)
	t.Logf("%d instructions", len(lines))
	for tool := range assemblers {
		t.Run(tool, func(t *testing.T) {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("%s is not installed", tool)
			}
			compare(t, tool, slices.DeleteFunc(slices.Clone(lines), func(l line) bool {
				return differs[tool].MatchString(l.text)
			}))
		})
	}
}

func sortedLines(m map[string]line) []line {
	return slices.SortedFunc(maps.Values(m), func(x, y line) int { return strings.Compare(x.text, y.text) })
}
