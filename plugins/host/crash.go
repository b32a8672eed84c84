package host

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/tilewright/tilewright/kernel"
)

// Reason classifies the death of a backend.
type Reason string

const (
	ReasonSIGILL  Reason = "sigill"  // executed an instruction that this CPU lacks
	ReasonSIGSEGV Reason = "sigsegv" // memory fault, bus errors included
	ReasonAbort   Reason = "abort"   // abort, a fatal error of a runtime
	ReasonPanic   Reason = "panic"   // Go panic
	ReasonOOM     Reason = "oom"     // out of memory, as its runtime said
	ReasonKilled  Reason = "killed"  // by the kernel, for want of memory, or by somebody else
	ReasonHang    Reason = "timeout" // no answer within the deadline; killed
	ReasonExit    Reason = "exit"    // ended by itself
	ReasonGaveUp  Reason = "gave up" // crashed too often in a row, not started again
)

// ErrBackendCrashed says that a backend died or had to be killed while it answered a call. What it
// was asked is quarantined: asking again returns the same error without running anything.
type ErrBackendCrashed struct {
	Backend string
	Call    string // what it was doing: emit, space, layouts, manifest
	Reason  Reason
	Detail  string // first lines of stderr that say something, or the exit status
	Problem kernel.Problem
	Config  kernel.Config // nil unless Call is emit
	Again   bool          // answered from quarantine
}

func (e *ErrBackendCrashed) Error() string {
	s := fmt.Sprintf("backend %s crashed (%s) in %s", e.Backend, e.Reason, e.Call)
	if e.Problem.Op != "" {
		s += " of " + e.Problem.String()
	}
	if e.Config != nil {
		s += " with " + e.Config.String()
	}
	if e.Again {
		s += ", quarantined"
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

var stderrReasons = []struct {
	re     *regexp.Regexp
	reason Reason
}{
	{regexp.MustCompile(`(?m)^SIGILL: `), ReasonSIGILL},
	{regexp.MustCompile(`(?m)^(fatal error: )?runtime: (out of memory|cannot allocate memory)|^fatal error: out of memory`), ReasonOOM},
	{regexp.MustCompile(`(?m)^(SIGSEGV|SIGBUS): |^unexpected fault address|^panic: runtime error: invalid memory address|\[signal SIG(SEGV|BUS)`), ReasonSIGSEGV},
	{regexp.MustCompile(`(?m)^SIGABRT: `), ReasonAbort},
	{regexp.MustCompile(`(?m)^panic: `), ReasonPanic},
	{regexp.MustCompile(`(?m)^fatal error: `), ReasonAbort},
}

// classify says why a process ended. A Go program turns most signals into exit status 2 and a
// report on stderr, so the report is read first.
func classify(state *os.ProcessState, stderr string) (Reason, string) {
	for _, r := range stderrReasons {
		if r.re.MatchString(stderr) {
			return r.reason, telling(stderr, r.re)
		}
	}
	if state == nil {
		return ReasonExit, firstLine(stderr)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		detail := strings.TrimSpace(state.String() + "; " + firstLine(stderr))
		switch ws.Signal() {
		case syscall.SIGILL:
			return ReasonSIGILL, detail
		case syscall.SIGSEGV, syscall.SIGBUS:
			return ReasonSIGSEGV, detail
		case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
			return ReasonKilled, fmt.Sprintf("by the kernel or by somebody else (%v)", ws.Signal())
		default:
			return ReasonAbort, detail
		}
	}
	return ReasonExit, strings.TrimSuffix(state.String()+": "+firstLine(stderr), ": ")
}

// telling is the line that matched and the one after it.
func telling(stderr string, re *regexp.Regexp) string {
	at := re.FindStringIndex(stderr)
	start := strings.LastIndexByte(stderr[:at[0]], '\n') + 1
	lines := strings.SplitN(stderr[start:], "\n", 3)
	return clip(strings.TrimSpace(strings.Join(lines[:min(2, len(lines))], "; ")))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return clip(line)
}

// clip shortens what goes into an error.
func clip(s string) string {
	const limit = 300
	s = printable([]byte(s))
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + " ..."
	}
	return s
}
