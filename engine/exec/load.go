package exec

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Entries maps the code of an artifact, or looks up the portable kernel that it names. free unmaps it.
func Entries(a *kernel.Artifact) (entries map[string]kernel.Func, free func(), err error) {
	switch a.Kind {
	case kernel.KindGo:
		entries, err = ref.Build(a)
		return entries, func() {}, err
	case kernel.KindCode:
		code, err := jit.Map(a.Code)
		if err != nil {
			return nil, nil, err
		}
		entries = make(map[string]kernel.Func, len(a.Entries))
		for name, off := range a.Entries {
			entry := code.Entry + uintptr(off)
			entries[name] = func(args unsafe.Pointer) { jit.Call0(entry, args) }
		}
		return entries, code.Free, nil
	}
	return nil, nil, fmt.Errorf("%w: the engine cannot run kind %q", kernel.ErrArtifact, a.Kind)
}

// load makes the kernel's artifact callable.
func (k *Kernel) load() error {
	entries, free, err := Entries(k.Artifact)
	if err != nil {
		return err
	}
	k.free = free
	k.Main, k.Tail, k.Unpack = entries[kernel.EntryMain], entries[kernel.EntryTail], entries[kernel.EntryUnpack]
	k.Rows = entries[kernel.EntryRows]
	switch {
	case k.Main == nil:
		return fmt.Errorf("%w: no entry %q", kernel.ErrArtifact, kernel.EntryMain)
	case k.Panel && (k.Unpack == nil || k.PanelStride <= 0):
		return fmt.Errorf("%w: it wants unpacked panels but has no entry %q or stride", kernel.ErrArtifact, kernel.EntryUnpack)
	case k.Streams > 1 && k.Tail == nil:
		return fmt.Errorf("%w: it takes %d panels at a time but has no entry %q", kernel.ErrArtifact, k.Streams, kernel.EntryTail)
	case k.Artifact.Key.Problem.Op == kernel.OpLinear && k.MR < 1:
		return fmt.Errorf("%w: a linear kernel of %d rows", kernel.ErrArtifact, k.MR)
	}
	return nil
}
