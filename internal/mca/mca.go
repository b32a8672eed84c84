// Package mca predicts the cycles of generated amd64 code with llvm-mca, a static model of a core: no
// caches, no decoding, no branch prediction, every load from the first level. It is for benchmarks.
//
// Of the models of LLVM 19 that of cascadelake has the arithmetic ports of server cores with AVX-512:
// 512-bit VPDPBUSD, VPDPWSSD and FMA on two ports. Those of icelake-server and sapphirerapids give FMA,
// the latter also VPDPBUSD, one port at 512 bits, as in client cores. Its scheduler has 60 entries, less
// than any of these cores, so what it says of waiting is pessimistic.
package mca

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Tool returns the newest llvm-mca installed.
func Tool() (string, error) {
	for _, n := range []string{"llvm-mca-21", "llvm-mca-20", "llvm-mca-19", "llvm-mca"} {
		if p, err := exec.LookPath(n); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no llvm-mca is installed")
}

// Prediction is what a core is expected to do with a sequence of instructions.
type Prediction struct {
	Instructions, Uops, Loads int
	Cycles                    float64
}

// Predict runs the model of a processor, named as for -mcpu, over a sequence.
func Predict(cpu string, seq []Inst) (Prediction, error) {
	tool, err := Tool()
	if err != nil {
		return Prediction{}, err
	}
	var in bytes.Buffer
	p := Prediction{Instructions: len(seq)}
	for _, i := range seq {
		fmt.Fprintln(&in, i.modelled(cpu))
		if i.load() {
			p.Loads++
		}
	}
	cmd := exec.Command(tool, "-mtriple=x86_64", "-mcpu="+cpu, "-iterations=1", "-instruction-info=0", "-noalias")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("llvm-mca: %w", err)
	}
	p.Uops, p.Cycles = int(number(out, "Total uOps:")), number(out, "Total Cycles:")
	if p.Cycles == 0 {
		return p, fmt.Errorf("llvm-mca said nothing of cycles")
	}
	return p, nil
}

// modelled is the instruction as the model should see it. LLVM 19 gives loads of EVEX registers, memory
// broadcasts among them, an arithmetic port that the cores do not use for them (uops.info); the
// streaming load is the one that it has right. The model of alderlake makes a cleared register wait for its
// old value; a load does not.
func (i Inst) modelled(cpu string) string {
	switch m := i.mnemonic(); m {
	case "vpxor":
		if ops := i.operands(); cpu == "alderlake" && ops[0] == ops[1] && ops[1] == ops[2] {
			return "vmovups (%rsp)," + ops[0]
		}
	case "vpbroadcastd", "vbroadcastss", "vmovups", "vmovdqu32":
		if ops := i.operands(); len(ops) == 2 && strings.Contains(ops[0], "(") && strings.HasPrefix(ops[1], "%zmm") {
			return "vmovntdqa " + ops[0] + "," + ops[1]
		}
	}
	return i.Text
}

// number is what stands behind a name, 0 if that is no number.
func number(out []byte, name string) float64 {
	_, rest, ok := bytes.Cut(out, []byte(name))
	if !ok {
		return 0
	}
	if f := strings.Fields(string(rest)); len(f) > 0 {
		v, _ := strconv.ParseFloat(f[0], 64)
		return v
	}
	return 0
}
