package bochs

import (
	"context"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
)

// Timeout bounds a run started by RunTest.
const Timeout = 2 * time.Minute

// Need skips a test where Bochs is missing.
func Need(t testing.TB) {
	t.Helper()
	if reason, ok := Available(); !ok {
		t.Skipf("emulator: %s", reason)
	}
}

// CallArtifact is Call for an entry of an artifact, failing the test if it cannot be prepared.
func (b *Batch) CallArtifact(t testing.TB, a *kernel.Artifact, entry string, args any, bufs ...any) *Result {
	t.Helper()
	off, ok := a.Entries[entry]
	if !ok {
		t.Fatalf("%s has no entry %q", a.Key.Problem, entry)
	}
	r, err := b.Call(a.Code, off, args, bufs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// RunTest runs the batch and fails the test if the run fails or any call faults.
func (b *Batch) RunTest(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for i, r := range b.results {
		if r.Fault != nil {
			t.Errorf("call %d: %v", i, r.Fault)
		}
	}
}

// Call runs one entry of an artifact on the emulator: see Batch.Call for args and bufs. It skips
// the test without Bochs and fails it on a fault.
func Call(t testing.TB, a *kernel.Artifact, entry string, args any, bufs ...any) {
	t.Helper()
	Need(t)
	var b Batch
	b.CallArtifact(t, a, entry, args, bufs...)
	b.RunTest(t)
}
