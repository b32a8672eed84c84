package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func artifact() *kernel.Artifact {
	return &kernel.Artifact{
		Key: kernel.ArtifactKey{Problem: kernel.Problem{Op: kernel.OpScale}, LayoutVersion: kernel.LayoutVersion,
			ISA: []string{"avx2"}, ABI: kernel.ABILeaf},
		Kind: kernel.KindCode, Code: []byte{0xc3, 0xc3}, Entries: map[string]int{kernel.EntryMain: 0, kernel.EntryTail: 1},
		Exec: kernel.Exec{MR: 4, Streams: 2},
	}
}

func TestArtifactValidate(t *testing.T) {
	host := kernel.NewFeatures("avx2", "fma")
	if err := artifact().Validate(host); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*kernel.Artifact)
		says  string
	}{
		"layout version":  {func(a *kernel.Artifact) { a.Key.LayoutVersion++ }, "layout version"},
		"missing feature": {func(a *kernel.Artifact) { a.Key.ISA = []string{"amx_int8"} }, "amx_int8"},
		"code ABI":        {func(a *kernel.Artifact) { a.Key.ABI = kernel.ABISysV }, "sysv/1"},
		"no code":         {func(a *kernel.Artifact) { a.Code = nil }, "0 bytes"},
		"too much code":   {func(a *kernel.Artifact) { a.Code = make([]byte, 5<<20) }, "bytes of code"},
		"no main":         {func(a *kernel.Artifact) { delete(a.Entries, kernel.EntryMain) }, "main"},
		"entry past code": {func(a *kernel.Artifact) { a.Entries[kernel.EntryTail] = 2 }, "tail"},
		"negative entry":  {func(a *kernel.Artifact) { a.Entries[kernel.EntryTail] = -1 }, "tail"},
		"portable ABI":    {func(a *kernel.Artifact) { a.Kind = kernel.KindGo }, "leaf/2"},
		"ELF ABI":         {func(a *kernel.Artifact) { a.Kind = kernel.KindELF }, "leaf/2"},
		"rows":            {func(a *kernel.Artifact) { a.Exec.MR = 1 << 30 }, "mr is"},
		"streams":         {func(a *kernel.Artifact) { a.Exec.Streams = -1 }, "streams is"},
		"panel stride":    {func(a *kernel.Artifact) { a.Exec.PanelStride = 1 << 31 }, "panel_stride is"},
		"scratch":         {func(a *kernel.Artifact) { a.Exec.ScratchBytes = 1 << 30 }, "scratch_bytes is"},
		"kind":            {func(a *kernel.Artifact) { a.Kind = "wasm" }, "wasm"},
	} {
		a := artifact()
		c.spoil(a)
		err := a.Validate(host)
		if !errors.Is(err, kernel.ErrArtifact) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArtifactDigest: what executes is in the digest, what it was made for is not, unless there is
// no code to tell two portable kernels apart.
func TestArtifactDigest(t *testing.T) {
	was := artifact().Digest()
	for name, c := range map[string]struct {
		change func(*kernel.Artifact)
		differ bool
	}{
		"code":   {func(a *kernel.Artifact) { a.Code[1] = 0x90 }, true},
		"entry":  {func(a *kernel.Artifact) { a.Entries[kernel.EntryTail] = 0 }, true},
		"exec":   {func(a *kernel.Artifact) { a.Exec.NC = 8 }, true},
		"kind":   {func(a *kernel.Artifact) { a.Kind = kernel.KindELF }, true},
		"config": {func(a *kernel.Artifact) { a.Key.Config = kernel.Config{"mr": 1} }, false},
	} {
		a := artifact()
		c.change(a)
		if got := a.Digest() != was; got != c.differ {
			t.Errorf("%s: digest changed: %t", name, got)
		}
	}
	a, b := artifact(), artifact()
	a.Kind, b.Kind = kernel.KindGo, kernel.KindGo
	b.Key.Config = kernel.Config{"mr": 1}
	if a.Digest() == b.Digest() {
		t.Error("two portable kernels of different configurations share a digest")
	}
}
