package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/preflight"
)

// watch adapts the preflight's watch to the session's.
type watch struct {
	w         *preflight.Watch
	allowBusy bool
	last      preflight.Block
}

// newWatch guards the target cores and refuses a busy host, unless the user allows it.
func newWatch(cpus []int, allowBusy bool) (*watch, error) {
	src, lim := preflight.Live(), preflight.DefaultLimits()
	if err := preflight.Guard(src, cpus, lim).Err(); err != nil {
		if !allowBusy {
			return nil, fmt.Errorf("%w: %v (--allow-busy labels the results instead)", cli.ErrRefused, err)
		}
		slog.Warn("measuring on a busy host: results are labelled", "why", err)
	}
	return &watch{w: preflight.NewWatch(src, cpus, lim), allowBusy: allowBusy}, nil
}

// Mark begins a block.
func (w *watch) Mark() any { return w.w.Begin() }

// Disturbed ends it and says why it does not count. A user who allows a busy host gets labelled
// results, not none.
func (w *watch) Disturbed(mark any) string {
	begin, _ := mark.(preflight.Mark)
	w.last = w.w.End(begin)
	if w.allowBusy {
		return ""
	}
	return strings.Join(w.last.Reasons, "; ")
}

// busy names the processes that were busy in the last block.
func (w *watch) busy() string {
	var names []string
	for _, p := range w.last.Processes {
		names = append(names, fmt.Sprintf("%s (pid %d)", p.Command, p.Pid))
	}
	if len(names) == 0 {
		return ""
	}
	return "; busy: " + strings.Join(names, ", ")
}
