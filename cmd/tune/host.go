package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/host"
)

func hostCmd(s *cli.Shared) *cobra.Command {
	var file string
	var measure bool
	c := &cobra.Command{
		Use: "host", Short: "Print what this machine is and what it can do at best", Args: cli.NoArgs,
		Long: "Print the profile of this machine: what its CPU executes, cores, caches, what this process may use,\n" +
			"and the settings that move timings; and its ceilings, measured over the packed weights of a preset.\n" +
			"With --json the output is a profile that --host-profile replays.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := readProfile(cmd, file)
			if err != nil {
				return err
			}
			out := hostJSON{Profile: p, Digest: p.Digest(), Threads: p.Threads()}
			if measure && file == "" {
				if out.Ceilings, err = measureCeilings(cmd.Context(), s); err != nil {
					return fmt.Errorf("ceilings (--ceilings=false leaves them out): %w", err)
				}
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), out)
			}
			return errors.Join(printHost(cmd.OutOrStdout(), p), printCeilings(cmd.OutOrStdout(), out.Ceilings))
		},
	}
	c.Flags().BoolVar(&measure, "ceilings", true, "measure what the machine can do at best; takes some seconds")
	c.Flags().StringVar(&file, "host-profile", "", "replay the profile in `FILE`, which tune host --json wrote (TILEWRIGHT_HOST_PROFILE_FILE)")
	cli.KnownAs(c.Flags(), "host-profile", "host-profile-file") // tune has a switch of that name
	return c
}

// hostJSON is a profile with what follows from it; it parses as a profile.
type hostJSON struct {
	*host.Profile
	Digest   string    `json:"digest"`
	Threads  int       `json:"threads_default"`
	Ceilings *ceilings `json:"ceilings,omitempty"`
}

// ceilings are medians, and the backend whose kernels read them.
type ceilings struct {
	bench.Ceilings
	Backend string `json:"backend"`
}

// ceilingRounds is the number of readings of which the median counts.
const ceilingRounds = 5

// measureCeilings reads the ceilings over the weights of the default preset, which no cache holds.
func measureCeilings(ctx context.Context, s *cli.Shared) (*ceilings, error) {
	defer app.LockHost()()
	l, err := app.Load(ctx, s, &app.ModelFlags{Preset: model.DefaultPreset, Weights: string(model.W4A8), Context: 16, Pin: true}, nil)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	suite, err := l.Backends.Suite(ctx)
	if err != nil {
		return nil, err
	}
	p, err := bench.NewProber(ctx, l.Engine, suite)
	if err != nil {
		return nil, err
	}
	read, err := suite.Default(ctx, kernel.Problem{Op: kernel.OpStream})
	if err != nil {
		return nil, err
	}
	var seen [4][]float64
	for range ceilingRounds {
		c, err := p.Measure(l.Plan.Knobs.ThreadsDecode, l.Plan.Knobs.ThreadsPrefill)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		for i, x := range []float64{c.ReadGBs, c.Int8GMACs, c.Int16GMACs, c.FP32GMACs} {
			seen[i] = append(seen[i], x)
		}
	}
	return &ceilings{bench.Ceilings{ReadGBs: stat.Median(seen[0]), Int8GMACs: stat.Median(seen[1]),
		Int16GMACs: stat.Median(seen[2]), FP32GMACs: stat.Median(seen[3])}, read.Backend}, nil
}

func printCeilings(w io.Writer, c *ceilings) error {
	if c == nil {
		return nil
	}
	note := ""
	if c.Backend == generic.Name {
		note = ": portable kernels, the machine can do more"
	}
	_, err := fmt.Fprintf(w, "ceilings     read %.1f GB/s, int8 %.0f GMAC/s, int16 %.0f GMAC/s, fp32 %.0f GMAC/s (%s%s)\n",
		c.ReadGBs, c.Int8GMACs, c.Int16GMACs, c.FP32GMACs, c.Backend, note)
	return err
}

func readProfile(cmd *cobra.Command, file string) (*host.Profile, error) {
	if file == "" {
		h, err := app.NewHost(cmd.Context(), "")
		if err != nil {
			return nil, err
		}
		return h.Profile, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--host-profile: %w", err)
	}
	defer f.Close()
	p, err := host.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("--host-profile %s: %w", file, err)
	}
	return p, nil
}

func printHost(w io.Writer, p *host.Profile) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, a...)) }
	t, l, m, s := p.Topology, p.Limits, p.Memory, p.Settings
	row("CPU", "%s (%s family %d model %d stepping %d), %s", or(p.CPU.Name, "unnamed"), or(p.CPU.Vendor, "unknown vendor"),
		p.CPU.Family, p.CPU.Model, p.CPU.Stepping, p.Arch)
	row("digest", "%s", p.Digest())
	probed := "advertised"
	if p.Probed {
		probed = "executed"
	}
	row("features", "%s (%s)", strings.Join(p.Usable, " "), probed)
	if len(p.Refused) > 0 {
		row("refused", "%s: advertised, but they do not execute", strings.Join(p.Refused, " "))
	}
	row("topology", "%s, %s, %s, %s, classes %s", count(t.Packages, "package"), count(t.Cores, "core"),
		count(t.Threads, "logical CPU"), count(t.Nodes, "NUMA node"), or(strings.Join(t.Classes, "+"), "unknown"))
	row("caches", "%s", or(caches(t.Caches), "unknown"))
	row("allowed", "CPUs %s, quota %s, %s by default", ranges(l.Allowed), quota(l.Quota), count(p.Threads(), "thread"))
	row("memory", "%s, %s available, swap %s, limit %s", size(m.Total), size(m.Available), size(m.SwapTotal), limit(l.MemoryBytes))
	row("kernel", "%s, microcode %s", or(s.Kernel, "unknown"), or(s.Microcode, "unknown"))
	row("settings", "THP %s (defrag %s), governor %s, boost %s, SMT %s, NUMA balancing %s", or(s.THP, "unknown"), or(s.THPDefrag, "unknown"),
		or(s.Governor, "unknown"), or(s.Boost, "unknown"), or(s.SMT, "unknown"), or(s.NUMABalance, "unknown"))
	row("hypervisor", "%s", or(s.Hypervisor, "none"))
	for i, name := range slices.Sorted(maps.Keys(s.Mitigations)) {
		head := ""
		if i == 0 {
			head = "mitigations"
		}
		row(head, "%s: %s", name, s.Mitigations[name])
	}
	supply := "mains"
	if p.Power.OnBattery {
		supply = "battery"
	}
	row("power", "%s, %d thermal throttles since boot", supply, p.Power.Throttles)
	return tw.Flush()
}

func caches(list []host.Cache) string {
	var out []string
	for _, c := range list {
		kind := map[string]string{"data": "d", "instruction": "i"}[strings.ToLower(c.Type)]
		s := fmt.Sprintf("L%d%s %s", c.Level, kind, size(c.Bytes))
		if c.Shared > 1 {
			s += fmt.Sprintf(" shared by %d", c.Shared)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func quota(q float64) string {
	if q <= 0 {
		return "none"
	}
	return strconv.FormatFloat(q, 'g', 3, 64) + " CPUs"
}

func limit(n int64) string {
	if n <= 0 {
		return "none"
	}
	return size(n)
}

// ranges writes sorted numbers as 0-3,8.
func ranges(ids []int) string {
	var out []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		s := strconv.Itoa(ids[i])
		if j > i {
			s += "-" + strconv.Itoa(ids[j])
		}
		out = append(out, s)
		i = j + 1
	}
	return strings.Join(out, ",")
}

func or(s, unknown string) string {
	if s == "" {
		return unknown
	}
	return s
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// size writes bytes in the largest binary unit of which there is one.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for x >= 1024 && i+1 < len(units) {
		x, i = x/1024, i+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") + " " + units[i]
}

func printJSON(w io.Writer, v any) error {
	b, err := indented(v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
