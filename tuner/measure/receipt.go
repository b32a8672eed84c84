package measure

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Process is one process of a runner's tree at the moment of a sample.
type Process struct {
	PID     int   `json:"pid"`
	Start   int64 `json:"start"` // clock ticks after boot: a recycled pid differs in it
	RssAnon int64 `json:"rss_anon,omitempty"`
	CPUTime int64 `json:"cpu_ns,omitempty"`
}

// Receipt is what a runner says that it executed for one sample.
type Receipt struct {
	Nonce string           `json:"nonce"` // echoes the job's
	PID   int              `json:"pid"`
	Start int64            `json:"start"`
	Exe   string           `json:"exe"`             // sha256 of the executable
	Calls map[string]int64 `json:"calls,omitempty"` // calls by artifact digest
	Bytes int64            `json:"bytes,omitempty"` // weight bytes streamed
	Tree  []Process        `json:"tree,omitempty"`  // the process and its descendants
	// Evidence is what else shows which knobs acted: layout digests, byte counts, counters.
	Evidence map[string]string `json:"evidence,omitempty"`
}

// TreeRssAnon sums RssAnon over the process tree.
func (r Receipt) TreeRssAnon() int64 {
	var sum int64
	for _, p := range r.Tree {
		sum += p.RssAnon
	}
	return sum
}

// Expect is what a receipt must show for a sample to count. Zero fields are not checked, except
// that an expectation without a nonce is met by nothing.
type Expect struct {
	Nonce     string
	PID       int
	Start     int64
	Exe       string
	Artifacts []string // digests of the arm: each must have run, no other may have
	Bytes     int64
	Evidence  map[string]string // entries that the receipt's evidence must hold
}

// ErrReceipt is wrapped by every mismatch between what was asked for and what ran.
var ErrReceipt = errors.New("receipt does not match the arm")

// Check reports the first difference between what should have run and what did.
func (e Expect) Check(r Receipt) error {
	bad := func(what string, got, want any) error {
		return fmt.Errorf("%w: %s is %v, want %v", ErrReceipt, what, got, want)
	}
	switch {
	case e.Nonce == "" || r.Nonce != e.Nonce:
		return bad("nonce", cmp.Or(r.Nonce, "none"), e.Nonce)
	case e.PID != 0 && r.PID != e.PID:
		return bad("pid", r.PID, e.PID)
	case e.Start != 0 && r.Start != e.Start:
		return bad("start time", r.Start, e.Start)
	case e.Exe != "" && r.Exe != e.Exe:
		return bad("executable", r.Exe, e.Exe)
	case e.Bytes != 0 && r.Bytes != e.Bytes:
		return bad("bytes streamed", r.Bytes, e.Bytes)
	}
	for _, d := range e.Artifacts {
		if r.Calls[d] <= 0 {
			return bad("calls of artifact "+short(d), r.Calls[d], "at least 1")
		}
	}
	if len(e.Artifacts) > 0 {
		for _, d := range slices.Sorted(maps.Keys(r.Calls)) {
			if !slices.Contains(e.Artifacts, d) {
				return fmt.Errorf("%w: artifact %s ran, which is not the arm's", ErrReceipt, short(d))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(e.Evidence)) {
		if r.Evidence[k] != e.Evidence[k] {
			return bad(k, r.Evidence[k], e.Evidence[k])
		}
	}
	return nil
}

// short is a digest cut to what people read.
func short(digest string) string { return digest[:min(12, len(digest))] }
