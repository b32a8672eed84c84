package x86

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// llvmAttrs are the features of an ISA as llvm-mc names them.
var llvmAttrs = map[string]string{
	"avx2":    "+avx2,+fma,+f16c",
	"avxvnni": "+avx2,+fma,+f16c,+avxvnni",
	"avx512":  "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512vnni",
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

// forbidden matches disassembled instructions that need more than an ISA declares; llvm-mc itself
// accepts every feature. EVEX forms are known by registers 16 to 31, zmm, masks and broadcasts.
var forbidden = map[string]*regexp.Regexp{
	"avx2":    regexp.MustCompile(`zmm|[xy]mm(1[6-9]|2\d|3[01])|%k\d|\{1to|vpdp|gfni`),
	"avxvnni": regexp.MustCompile(`zmm|[xy]mm(1[6-9]|2\d|3[01])|%k\d|\{1to|\{evex\}|gfni`),
	"avx512": regexp.MustCompile(`v(and|andn|or|xor)p[sd]\b.*(zmm|mm(1[6-9]|2\d|3[01])|\{)|` + // DQ
		`v(insert|extract|broadcast)[fi](32x8|64x2)|v(insert|extract|broadcast)[fi]32x2|vpmullq|vcvt\w*qq|vfpclass|vrange|vreduce|` +
		`kmovb|kortestb|vpmovm2[dq]|vpmov[dq]2m|` +
		`vperm[it]?2?b\b|vpmultishift|vpcompress[bw]|vpexpand[bw]|vpsh[lr]d|vpopcnt|gf2p8|bf16|vpconflict|vplzcnt|\w+ph\b.*mm.*mm.*mm`),
}

// All code disassembles and needs no other features than those it declares; it keeps the ABI's
// registers. An entry ends at its only return; what follows are constants.
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
			leaf := regexp.MustCompile(`%[re]?[sb]pl?\b|push|pop|call`)
			for line := range strings.Lines(text) {
				if forbidden[s.isa.Name].MatchString(line) || leaf.MatchString(line) {
					t.Errorf("forbidden instruction: %s", line)
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
	ps = append(ps, blockProblems...)
	for i, p := range linearProblems() {
		if i%every(31) == 0 {
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

// The patterns know instructions that must not pass.
func TestForbidden(t *testing.T) {
	for isa, lines := range map[string][]string{
		"avx2":    {"vpaddd %zmm1, %zmm2, %zmm3", "vpaddd (%rax){1to8}, %ymm1, %ymm1", "vmovups %ymm16, %ymm1"},
		"avxvnni": {"vpdpbusd %zmm1, %zmm2, %zmm3", "{evex} vpdpbusd %ymm1, %ymm2, %ymm3"},
		"avx512":  {"vandps %zmm1, %zmm2, %zmm3", "vextractf32x8 $1, %zmm1, %ymm2", "vpermb %zmm1, %zmm2, %zmm3", "vdpbf16ps %zmm1, %zmm2, %zmm3"},
	} {
		for _, l := range lines {
			if !forbidden[isa].MatchString(l) {
				t.Errorf("%s: %s passes", isa, l)
			}
		}
	}
}
