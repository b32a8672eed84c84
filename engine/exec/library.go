// Package exec turns artifacts into callable kernels and counts what they did.
package exec

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// ArtifactSource supplies the artifact of a choice, cached or freshly emitted.
type ArtifactSource interface {
	Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error)
}

// Plan decides which layout a class of weights has and which configuration serves a problem: a tuned
// arm, the defaults, or an arm under test.
type Plan interface {
	Layout(ctx context.Context, c model.Class) (kernel.Layout, error)
	Choice(ctx context.Context, p kernel.Problem) (kernel.Choice, error)
}

// Kernel is an artifact ready to run.
type Kernel struct {
	kernel.Exec
	Artifact           *kernel.Artifact
	Digest             string
	Main, Tail, Unpack kernel.Func
	Rows               kernel.Func // OpRope; may be nil

	calls, bytes atomic.Int64
	free         func()
}

// Count adds to the receipt: calls of Main or Tail, and weight bytes streamed.
func (k *Kernel) Count(calls, bytes int64) {
	k.calls.Add(calls)
	k.bytes.Add(bytes)
}

// Receipt says what an artifact did.
type Receipt struct {
	Digest  string         `json:"digest"`
	Problem kernel.Problem `json:"problem"`
	Calls   int64          `json:"calls"`
	Bytes   int64          `json:"bytes"` // weight bytes read
}

// Library holds the kernels of an engine. Artifacts with the same digest and problem are one kernel.
// It is safe for concurrent use.
type Library struct {
	plan   Plan
	source ArtifactSource
	host   kernel.Features

	mu        sync.Mutex
	byProblem map[kernel.Problem]*Kernel
	byKey     map[string]*Kernel
}

// NewLibrary makes an empty library. host are the features that artifacts may use.
func NewLibrary(plan Plan, source ArtifactSource, host kernel.Features) *Library {
	return &Library{plan: plan, source: source, host: host,
		byProblem: map[kernel.Problem]*Kernel{}, byKey: map[string]*Kernel{}}
}

// Kernel returns the kernel that the plan chooses for a problem.
func (l *Library) Kernel(ctx context.Context, p kernel.Problem) (*Kernel, error) {
	l.mu.Lock()
	k := l.byProblem[p]
	l.mu.Unlock()
	if k != nil {
		return k, nil
	}
	c, err := l.plan.Choice(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("choose a kernel for %s: %w", p, err)
	}
	a, err := l.source.Artifact(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("artifact for %s: %w", p, err)
	}
	if k, err = l.Bind(a); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byProblem[p] = k
	return k, nil
}

// Bind makes an artifact callable.
func (l *Library) Bind(a *kernel.Artifact) (*Kernel, error) {
	if err := a.Validate(l.host); err != nil {
		return nil, err
	}
	digest := a.Digest()
	id := digest + " " + a.Key.Problem.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byKey[id]; k != nil {
		return k, nil
	}
	k := &Kernel{Exec: a.Exec, Artifact: a, Digest: digest}
	if err := k.load(); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Key.Problem, err)
	}
	l.byKey[id] = k
	return k, nil
}

// Kernels lists the kernels that were looked up by problem, in order of problem.
func (l *Library) Kernels() []*Kernel {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*Kernel
	for _, k := range l.byProblem {
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Artifact.Key.Problem.String() < out[j].Artifact.Key.Problem.String()
	})
	return out
}

// Receipts lists what ran, in order of problem, since the last Reset.
func (l *Library) Receipts() []Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Receipt
	for _, k := range l.byKey {
		if n := k.calls.Load(); n > 0 {
			out = append(out, Receipt{k.Digest, k.Artifact.Key.Problem, n, k.bytes.Load()})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if x, y := a.Problem.String(), b.Problem.String(); x != y {
			return x < y
		}
		return a.Digest < b.Digest
	})
	return out
}

// Reset sets all receipts to zero.
func (l *Library) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.byKey {
		k.calls.Store(0)
		k.bytes.Store(0)
	}
}

// Close unmaps all code. No kernel may run afterwards.
func (l *Library) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.byKey {
		k.free()
	}
	clear(l.byKey)
	clear(l.byProblem)
}
