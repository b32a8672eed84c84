// Package conformance checks any backend, built in or a third party's binary, against the contract
// of package kernel: manifest, spaces, refusal of what is not in them, deterministic emission,
// artifacts that validate, parameters that act, and numbers that agree with the oracles. Generated
// code runs in a disposable process, so that a crash is a line of the report.
package conformance

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/host"
)

// Status is the outcome of a check.
type Status string

const (
	Pass Status = "pass"
	Warn Status = "warn" // legal, but probably not meant
	Fail Status = "fail"
	Skip Status = "skip"
)

// Check is one property of a backend, over all problems and configurations tried.
type Check struct {
	Name   string   `json:"name"`
	Status Status   `json:"status"`
	Tried  int      `json:"tried"`
	Detail []string `json:"detail,omitempty"` // the first few failures or warnings
	Failed int      `json:"failed,omitempty"`
}

// Report is what the kit says of one backend.
type Report struct {
	Backend  string          `json:"backend"`
	Manifest kernel.Manifest `json:"manifest"`
	Passed   bool            `json:"passed"`
	Problems int             `json:"problems"`
	Checks   []*Check        `json:"checks"`
}

// Options of a run; the zero value tests emission against the backend's own requirements.
type Options struct {
	Features kernel.Features // of this host; numbers are checked only if they cover an artifact's ISA
	Arch     string          // GOARCH of this host, runtime.GOARCH if empty
	Problems int             // per op, 16 if 0
	Configs  int             // random configurations per problem besides the default, 3 if 0
	Emission bool            // check emission only, run nothing
}

func (o Options) withDefaults() Options {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Problems == 0 {
		o.Problems = 16
	}
	if o.Configs == 0 {
		o.Configs = 3
	}
	return o
}

// Run checks a backend. Only the end of ctx makes it stop early.
func Run(ctx context.Context, b kernel.Backend, o Options) Report {
	k := &kit{b: b, o: o.withDefaults(), checks: map[string]*Check{}}
	k.run(ctx)
	if err := ctx.Err(); err != nil {
		k.fail("completed", "stopped: %v", err)
	}
	return k.report()
}

// RunBinary starts a third-party backend's executable and checks it. That it does not start is a
// failed check.
func RunBinary(ctx context.Context, path string, o Options) Report {
	src, err := host.External(path)
	if err != nil {
		return failed(path, err)
	}
	p, err := host.Open(ctx, src, host.Options{})
	if err != nil {
		return failed(src.Name, err)
	}
	defer p.Close()
	return Run(ctx, p, o)
}

func failed(name string, err error) Report {
	return Report{Backend: name, Checks: []*Check{{Name: "starts", Status: Fail, Tried: 1, Failed: 1, Detail: []string{err.Error()}}}}
}

// Write prints a report for people.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "backend %s: %d problems\n", r.Backend, r.Problems)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  %-4s  %s (%d tried", c.Status, c.Name, c.Tried)
		if c.Failed > 0 {
			fmt.Fprintf(&b, ", %d failed", c.Failed)
		}
		b.WriteString(")\n")
		for _, d := range c.Detail {
			fmt.Fprintf(&b, "        %s\n", strings.ReplaceAll(d, "\n", "\n        "))
		}
	}
	if r.Passed {
		b.WriteString("passed\n")
	} else {
		b.WriteString("FAILED\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
