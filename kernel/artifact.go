package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sort"
)

// ArtifactKind says what an artifact's payload is.
type ArtifactKind string

const (
	KindCode ArtifactKind = "code" // position-independent machine code
	KindGo   ArtifactKind = "go"   // a portable kernel of kernel/ref; no payload
	KindELF  ArtifactKind = "elf"  // a shared object, entries are symbols, ABI sysv/1
)

// BackendID identifies who emitted an artifact.
type BackendID struct {
	Name   string `json:"name" key:"hard"`
	Digest string `json:"digest" key:"hard"` // source digest (built in) or sha256 of the binary
}

// ArtifactKey is the full identity of an artifact; every field is hard.
type ArtifactKey struct {
	Problem       Problem   `json:"problem" key:"hard"`
	Config        Config    `json:"config" key:"hard"`
	LayoutVersion int       `json:"layout_version" key:"hard"`
	ISA           []string  `json:"isa" key:"hard"` // features the code needs, sorted
	ABI           string    `json:"abi" key:"hard"`
	Backend       BackendID `json:"backend" key:"hard"`
}

// Digest is the sha256 of the canonical encoding, in hex.
func (k ArtifactKey) Digest() string { return KeyDigest(k) }

// Exec tells the caller how to drive an artifact; it never reads a Config.
type Exec struct {
	MR           int  `json:"mr,omitempty"`      // OpLinear: rows a call computes
	Streams      int  `json:"streams,omitempty"` // OpLinear: "main" takes multiples of this many panels
	Panel        bool `json:"panel,omitempty"`   // OpLinear: "main" reads panels that "unpack" made
	PanelStride  int  `json:"panel_stride,omitempty"`
	NC           int  `json:"nc,omitempty"`            // OpLinear: panels per cache block, 0 = all
	MC           int  `json:"mc,omitempty"`            // OpLinear: rows per cache block, 0 = all
	Chunk        int  `json:"chunk,omitempty"`         // OpLinear of one row: panels a worker takes at once; 0 = one static share
	ScratchBytes int  `json:"scratch_bytes,omitempty"` // OpAttn, OpQuant, OpLinear, entry "rows" of OpRope
	Unit         int  `json:"unit,omitempty"`          // OpStream: bytes; OpPeak: MACs per iteration
}

// Artifact is what a backend emits for (problem, config).
type Artifact struct {
	Key     ArtifactKey    `json:"key"`
	Kind    ArtifactKind   `json:"kind"`
	Code    []byte         `json:"code,omitempty"`
	Entries map[string]int `json:"entries,omitempty"` // entry name -> offset in Code
	Exec    Exec           `json:"exec"`
}

// Entry names.
const (
	EntryMain   = "main"
	EntryTail   = "tail"
	EntryUnpack = "unpack"
	EntryRows   = "rows" // OpRope
)

// Digest is the sha256, in hex, of what would execute: kind, entries, exec and code, not the key.
// Two arms whose artifacts share a digest run the same thing.
func (a *Artifact) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%+v\n", a.Kind, a.Exec)
	names := make([]string, 0, len(a.Entries))
	for n := range a.Entries {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(h, "%s=%d\n", n, a.Entries[n])
	}
	if a.Kind == KindGo {
		fmt.Fprintf(h, "%s\n%s\n", a.Key.Problem, a.Key.Config)
	}
	h.Write(a.Code)
	return hex.EncodeToString(h.Sum(nil))
}

// ErrArtifact is wrapped by every refusal of an artifact.
var ErrArtifact = errors.New("artifact refused")

// check says which field is out of all reason, "" if none is: callers size buffers by them.
func (e Exec) check() string {
	const mb = 1 << 20
	for _, f := range []struct {
		name   string
		v, top int
	}{{"mr", e.MR, 64}, {"streams", e.Streams, 64}, {"panel_stride", e.PanelStride, 64 * mb}, {"scratch_bytes", e.ScratchBytes, 64 * mb},
		{"nc", e.NC, math.MaxInt32}, {"mc", e.MC, math.MaxInt32}, {"chunk", e.Chunk, math.MaxInt32}, {"unit", e.Unit, math.MaxInt32}} {
		if f.v < 0 || f.v > f.top {
			return fmt.Sprintf("exec: %s is %d, want 0 to %d", f.name, f.v, f.top)
		}
	}
	return ""
}

// Validate checks what can be checked without running: kind, ABI, entries inside the code, that the
// host has every feature the code needs, and that no size in Exec is out of all reason.
func (a *Artifact) Validate(host Features) error {
	refuse := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrArtifact, a.Key.Problem, fmt.Sprintf(format, v...))
	}
	if a.Key.LayoutVersion != LayoutVersion {
		return refuse("layout version %d, this build reads %d", a.Key.LayoutVersion, LayoutVersion)
	}
	if missing := host.Missing(a.Key.ISA); len(missing) > 0 {
		return refuse("needs %v, which this CPU does not have", missing)
	}
	if why := a.Exec.check(); why != "" {
		return refuse("%s", why)
	}
	switch a.Kind {
	case KindGo:
		if a.Key.ABI != ABIGo {
			return refuse("portable kernel with ABI %q", a.Key.ABI)
		}
	case KindCode:
		if a.Key.ABI != ABILeaf {
			return refuse("machine code with ABI %q, want %q", a.Key.ABI, ABILeaf)
		}
		if len(a.Code) == 0 || len(a.Code) > 4<<20 {
			return refuse("%d bytes of code", len(a.Code))
		}
		if _, ok := a.Entries[EntryMain]; !ok {
			return refuse("no entry %q", EntryMain)
		}
		for n, off := range a.Entries {
			if off < 0 || off >= len(a.Code) {
				return refuse("entry %q at %d, outside %d bytes of code", n, off, len(a.Code))
			}
		}
	case KindELF:
		if a.Key.ABI != ABISysV {
			return refuse("shared object with ABI %q, want %q", a.Key.ABI, ABISysV)
		}
	default:
		return refuse("unknown kind %q", a.Kind)
	}
	return nil
}
