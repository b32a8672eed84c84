// Package objdump disassembles generated code with the objdump of binutils.
package objdump

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Machines, in the terms of objdump -m.
const (
	AMD64 = "i386:x86-64"
	ARM64 = "aarch64"
)

// Line is one instruction, with single spaces, and its offset in the code.
type Line struct {
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}

// Disassemble decodes code from an offset on. An error says that objdump is not installed or failed.
func Disassemble(ctx context.Context, code []byte, from int, machine string) ([]Line, error) {
	f, err := os.CreateTemp("", "tilewright-*.bin")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(code)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "objdump", "-D", "-z", "-b", "binary", "-m", machine, "--no-show-raw-insn",
		fmt.Sprintf("--start-address=%d", from), f.Name()).Output()
	if err != nil {
		return nil, fmt.Errorf("objdump: %w", err)
	}
	var lines []Line
	for line := range strings.Lines(string(out)) {
		at, text, ok := strings.Cut(line, ":")
		off, err := strconv.ParseInt(strings.TrimSpace(at), 16, 32)
		if !ok || err != nil {
			continue
		}
		lines = append(lines, Line{int(off), strings.Join(strings.Fields(text), " ")})
	}
	if len(lines) == 0 {
		return nil, errors.New("objdump printed no instructions")
	}
	return lines, nil
}
