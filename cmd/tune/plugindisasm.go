package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/internal/objdump"
	"github.com/tilewright/tilewright/kernel"
)

func pluginDisasmCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "disasm NAME|BIN PROBLEM [CONFIG]", Short: "Emit the kernel of a problem and disassemble it", Args: rangeArgs(2, 3),
		Long: problemHelp + "\n\nCONFIG is name=value,... and changes the defaults. The code is disassembled by objdump or llvm-mc if one\n" +
			"is installed, else printed in hex. Nothing is executed: code for features that this CPU lacks is shown too.",
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, "")
			a, err := emitFor(cmd.Context(), s, args[0], args[1], args[2])
			if err != nil {
				return err
			}
			l := disassemble(cmd.Context(), a)
			w := cmd.OutOrStdout()
			if s.JSON {
				return printJSON(w, map[string]any{"schema": 1, "key": a.Key, "digest": a.Digest(), "kind": a.Kind, "exec": a.Exec,
					"entries": a.Entries, "bytes": len(a.Code), "listing": l})
			}
			return printListing(w, a, l)
		},
	}
}

func emitFor(ctx context.Context, s *cli.Shared, name, problem, config string) (*kernel.Artifact, error) {
	p, err := readProblem(problem)
	if err != nil {
		return nil, err
	}
	change, err := readConfig(config)
	if err != nil {
		return nil, err
	}
	b, err := openBackend(ctx, s, name)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	h, err := app.NewHost(ctx, "")
	if err != nil {
		return nil, err
	}
	features := withRequired(h.BackendFeatures(h.Features), m)
	sp, err := b.Space(ctx, features, p)
	if err != nil {
		return nil, err
	}
	c := sp.Default()
	maps.Copy(c, change)
	if err := sp.Check(c); err != nil {
		return nil, cli.Usagef("CONFIG: %v", err)
	}
	return b.Emit(ctx, features, p, c)
}

// readConfig parses name=value,... or a JSON object.
func readConfig(s string) (kernel.Config, error) {
	c := kernel.Config{}
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") {
		if err := json.Unmarshal([]byte(s), &c); err != nil {
			return nil, cli.Usagef("CONFIG: %v", err)
		}
		return c, nil
	}
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		name, value, ok := strings.Cut(part, "=")
		v, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil {
			return nil, cli.Usagef("CONFIG: %q: want name=number", part)
		}
		c[name] = v
	}
	return c, nil
}

// listing is disassembled code. By is the tool, "" for hex.
type listing struct {
	By    string         `json:"by"`
	Note  string         `json:"note,omitempty"`
	Lines []objdump.Line `json:"lines"`
}

// machines names the targets in the tools' own terms.
var machines = map[string]struct{ objdump, triple string }{
	"amd64": {objdump.AMD64, "x86_64"}, "arm64": {objdump.ARM64, "aarch64"},
}

func disassemble(ctx context.Context, a *kernel.Artifact) listing {
	if a.Kind != kernel.KindCode {
		return listing{Note: fmt.Sprintf("an artifact of kind %q has no code of its own", a.Kind), Lines: []objdump.Line{}}
	}
	m := machines[runtime.GOARCH]
	for _, t := range []struct {
		tool string
		run  func() ([]objdump.Line, error)
	}{
		{"objdump", func() ([]objdump.Line, error) { return objdump.Disassemble(ctx, a.Code, 0, m.objdump) }},
		{"llvm-mc", func() ([]objdump.Line, error) { return llvmMC(ctx, a.Code, m.triple) }},
	} {
		lines, err := t.run()
		if err == nil {
			return listing{By: t.tool, Lines: lines}
		}
		slog.Debug("disassembler not used", "tool", t.tool, "why", err)
	}
	return listing{Note: "no disassembler: install objdump (binutils) or llvm-mc; -v says why", Lines: hexLines(a.Code)}
}

var encoding = regexp.MustCompile(`^\s*(\S.*?)\s*[#/]+ encoding: \[(.*)\]`)

// llvmMC disassembles with llvm-mc, which tells lengths by encodings rather than offsets.
func llvmMC(ctx context.Context, code []byte, triple string) ([]objdump.Line, error) {
	var in strings.Builder
	for _, b := range code {
		fmt.Fprintf(&in, "0x%02x ", b)
	}
	out, err := tool(ctx, in.String(), "llvm-mc", "--disassemble", "--show-encoding", "-mattr=+all", "-triple="+triple)
	if err != nil {
		return nil, err
	}
	var lines []objdump.Line
	off := 0
	for line := range strings.Lines(out) {
		m := encoding.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		lines = append(lines, objdump.Line{Offset: off, Text: strings.Join(strings.Fields(m[1]), " ")})
		off += strings.Count(m[2], ",") + 1
	}
	if off != len(code) {
		return nil, fmt.Errorf("llvm-mc disassembled %d of %d bytes", off, len(code))
	}
	return lines, nil
}

func tool(ctx context.Context, stdin, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

func hexLines(code []byte) []objdump.Line {
	var out []objdump.Line
	for at := 0; at < len(code); at += 16 {
		out = append(out, objdump.Line{Offset: at, Text: hex.EncodeToString(code[at:min(at+16, len(code))])})
	}
	return out
}

func printListing(w io.Writer, a *kernel.Artifact, l listing) error {
	fmt.Fprintf(w, "# %s\n# config %s\n# digest %s, %d bytes, exec %+v\n", a.Key.Problem, or(a.Key.Config.String(), "none"), a.Digest(), len(a.Code), a.Exec)
	if l.Note != "" {
		fmt.Fprintf(w, "# %s\n", l.Note)
	}
	entries := slices.SortedFunc(maps.Keys(a.Entries), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.Entries[x], a.Entries[y]), cmp.Compare(x, y))
	})
	for _, line := range l.Lines {
		for len(entries) > 0 && a.Entries[entries[0]] <= line.Offset {
			fmt.Fprintf(w, "%s:\n", entries[0])
			entries = entries[1:]
		}
		if _, err := fmt.Fprintf(w, "%6x  %s\n", line.Offset, line.Text); err != nil {
			return err
		}
	}
	return nil
}
