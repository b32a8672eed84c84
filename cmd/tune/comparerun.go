package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/measure/grid"
)

// program is what an arm runs.
type program struct {
	path    string // of the executable
	files   files
	args    []string
	env     map[string]string
	timeout time.Duration
	arm     grid.Arm
	engine  bool // ours: its output shows what ran
	memory  bool // is a metric
	runs    int
	wrote   map[string]int // how many of the runs changed a file that the command names
}

// programs are those of the arms, by name.
type programs map[string]*program

// findPrograms resolves the arms' command lines and hashes their executables.
func findPrograms(s *grid.Spec) (programs, error) {
	out, known := programs{}, hashes{}
	memory := slices.ContainsFunc(s.Metrics, func(m grid.Metric) bool { return m.Memory })
	for _, a := range s.Arms {
		argv, env := a.Command, map[string]string{}
		if len(argv) == 0 {
			env["TILEWRIGHT_QUIET"] = "true" // it would warn of the host lock, which is ours

			if s.Binary == "" {
				return nil, cli.Usagef("arm %q has engine settings: the spec needs engine_binary, the engine that runs them", a.Name)
			}
			argv = append([]string{s.Binary}, benchArgs(s.Bench, a.Engine)...)
		}
		path, err := exec.LookPath(argv[0])
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, cli.Usagef("arm %q: %v", a.Name, err)
		}
		used, err := known.filesOf(path, argv[1:])
		if err != nil {
			return nil, fmt.Errorf("arm %q: %w", a.Name, err)
		}
		maps.Copy(env, a.Env)
		out[a.Name] = &program{path: path, files: used, args: argv[1:], env: env, arm: a, engine: len(a.Command) == 0, memory: memory, wrote: map[string]int{},
			timeout: time.Duration(s.Limit(a) * float64(time.Second))}
	}
	return out, nil
}

// benchArgs is the command line of an engine arm: its own flags over those that all share.
func benchArgs(shared, own map[string]string) []string {
	flags := maps.Clone(shared)
	if flags == nil {
		flags = map[string]string{}
	}
	maps.Copy(flags, own)
	args := []string{"bench", "--json"}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if len(name) == 1 {
			args = append(args, "-"+name, flags[name])
		} else {
			args = append(args, "--"+name+"="+flags[name])
		}
	}
	return args
}

// unchanged fails if a file that an arm runs is no longer what was measured first. What most runs of a
// command that names it have changed is its output, a log say: that is a note.
func (ps programs) unchanged() (notes []string, err error) {
	now := hashes{}
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		for _, file := range ps[name].files.changed(now) {
			if !ps.output(file) {
				return nil, fmt.Errorf("arm %q: %s changed during the comparison: the numbers are of two builds, measure again", name, file)
			}
			notes = append(notes, fmt.Sprintf("arm %s names %s, which its runs write: it does not identify what ran", name, file))
		}
	}
	return notes, nil
}

// output reports whether a command writes a file, whenever it runs: an executable that is built anew while
// arms run changes in one run of them.
func (ps programs) output(file string) bool {
	for _, g := range ps {
		if n := g.wrote[file]; file != g.path && n >= 2 && 2*n > g.runs {
			return true
		}
	}
	return false
}

func provenance(h *app.Host, ps programs, started time.Time) grid.Provenance {
	self, err := sum("/proc/self/exe")
	if err != nil {
		self = err.Error()
	}
	p := grid.Provenance{Build: cli.Version(), Host: h.Digest(), CPU: h.CPU.Name, Threads: len(h.CPUs),
		Started: started.UTC().Format(time.RFC3339), Protocol: "a fresh process for each sample, rotated", Extra: map[string]string{"sha256 of the judge": self}}
	for name, g := range ps {
		p.Extra["sha256 of "+name] = g.files[g.path]
		for path, id := range g.files {
			if path != g.path {
				p.Extra["file of "+name+": "+path] = id
			}
		}
		p.Extra["command of "+name] = strings.Join(append([]string{g.path}, g.args...), " ")
		for k, v := range g.env {
			p.Extra["env of "+name+": "+k] = v
		}
	}
	return p
}

// run runs an arm once and reads what it printed.
func (g *program) run(ctx context.Context, s *grid.Spec) grid.Result {
	nonce := rand.Text()
	before := g.files.stamps()
	stdout, tree, fail := g.start(ctx, nonce)
	g.runs++
	for file, now := range g.files.stamps() {
		if now != before[file] {
			g.wrote[file]++
		}
	}
	if fail != nil {
		return grid.Result{Failure: fail}
	}
	bad := func(why string) grid.Result {
		return grid.Result{Failure: &measure.Failure{Class: "output", Stderr: why}}
	}
	var doc any
	d := json.NewDecoder(bytes.NewReader(stdout))
	if err := d.Decode(&doc); err != nil {
		return bad(fmt.Sprintf("stdout is not a JSON document: %v", err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("stdout holds more than one JSON document")
	}
	r, err := s.Read(doc, g.arm, tree)
	if err != nil {
		return bad(err.Error())
	}
	r.Nonce = nonce
	if g.engine {
		r.Echo = nonce // it is known to do its work
		r.Evidence = engineEvidence(doc, r.Evidence)
		if r.Work == nil {
			n := engineWork(doc)
			r.Work = &n
		}
	}
	return r
}

// Limits of what is kept of a run.
const (
	maxStdout = 16 << 20
	maxStderr = 16 << 10
	headLines = 3
)

// engineWork is the tokens of the results of engine bench.
func engineWork(doc any) int64 {
	top, _ := doc.(map[string]any)
	results, _ := top["results"].([]any)
	var n float64
	for _, r := range results {
		m, _ := r.(map[string]any)
		p, _ := m["n_prompt"].(float64)
		g, _ := m["n_gen"].(float64)
		n += p + g
	}
	return int64(n)
}

// engineEvidence is what a report of engine bench shows of its knobs: the artifacts that ran, the
// bytes that are resident, the threads.
func engineEvidence(doc any, shown map[string]string) map[string]string {
	if shown == nil {
		shown = map[string]string{}
	}
	top, _ := doc.(map[string]any)
	results, _ := top["results"].([]any)
	for _, r := range results {
		m, _ := r.(map[string]any)
		ran, _ := m["artifacts"].(map[string]any)
		name := fmt.Sprint(m["test"])
		shown[name+" artifacts"] = strings.Join(slices.Sorted(maps.Keys(ran)), " ")
		for _, k := range []string{"weights", "weights_bytes", "n_threads", "n_depth"} {
			shown[name+" "+k] = fmt.Sprint(m[k])
		}
	}
	return shown
}
