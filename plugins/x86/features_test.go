package x86

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// llvmAttrs are the features of an ISA as llvm-mc names them.
var llvmAttrs = map[string]string{
	"avx2":   "+avx2,+fma,+f16c",
	"avx512": "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512vnni",
}

func llvmMC(t *testing.T) string {
	for _, name := range []string{"llvm-mc", "llvm-mc-19", "llvm-mc-18", "llvm-mc-17", "llvm-mc-16", "llvm-mc-15", "llvm-mc-14"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("llvm-mc is not installed")
	return ""
}

// All code disassembles, and assembles again with no other features than those it declares. An
// entry ends at its only return; what follows are constants.
func TestDeclaredFeatures(t *testing.T) {
	mc := llvmMC(t)
	for _, s := range isas {
		t.Run(s.isa.Name, func(t *testing.T) {
			var hex strings.Builder
			for _, code := range featureCorpus(t, s.isa) {
				for _, b := range code {
					fmt.Fprintf(&hex, "0x%02x ", b)
				}
				hex.WriteByte('\n')
			}
			text := mcRun(t, mc, hex.String(), "-disassemble", "-triple=x86_64", "-mattr="+llvmAttrs[s.isa.Name])
			mcRun(t, mc, text, "-triple=x86_64", "-mattr="+llvmAttrs[s.isa.Name], "-filetype=null")
			for _, bad := range []string{"rsp", "%esp", "rbp", "%ebp", "push", "pop"} {
				if i := strings.Index(text, bad); i >= 0 {
					t.Errorf("leaf code mentions %q: %s", bad, text[max(0, i-40):i+10])
				}
			}
		})
	}
}

// featureCorpus is the code of entries of sampled linear configurations and of the small ops.
func featureCorpus(t *testing.T, isa ISA) [][]byte {
	r := rand.New(rand.NewPCG(7, 7))
	ps := []kernel.Problem{{Op: kernel.OpStream}, {Op: kernel.OpPeak, Arith: kernel.A8}, {Op: kernel.OpPeak, Arith: kernel.F32},
		{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: kernel.Layout{Lanes: 16, Cols: 2}}}
	for i, p := range linearProblems() {
		if i%every(7) == 0 {
			ps = append(ps, p)
		}
	}
	var out [][]byte
	for _, p := range ps {
		for _, c := range sample(r, spaceOf(t, isa, p), 2) {
			a := emit(t, isa, p, c)
			for _, at := range a.Entries {
				code := a.Code[at:]
				if next := nextEntry(a, at); next > at {
					code = a.Code[at:next]
				}
				out = append(out, code[:returnAt(code)+1])
			}
		}
	}
	return out
}

func nextEntry(a *kernel.Artifact, at int) int {
	next := 0
	for _, o := range a.Entries {
		if o > at && (next == 0 || o < next) {
			next = o
		}
	}
	return next
}

// returnAt finds the return that ends an entry: the last one followed by padding, constants or
// nothing. A byte 0xc3 within constants would only lengthen the code and fail the test.
func returnAt(code []byte) int {
	for i := len(code) - 1; i > 0; i-- {
		if code[i] == 0xc3 && (i+1 == len(code) || code[i+1] == 0xcc || (i+1)%64 == 0) {
			return i
		}
	}
	return len(code) - 1
}

func mcRun(t *testing.T, mc, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(mc, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("llvm-mc %s: %v\n%.2000s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}
