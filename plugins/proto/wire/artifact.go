package wire

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
)

const (
	// MaxCode bounds the payload of an artifact, in bytes.
	MaxCode = 4 << 20
	// MaxMessage bounds one message from a plugin: the largest payload and its metadata.
	MaxMessage = MaxCode + 64<<10
	maxEntries = 64
)

// ToArtifact encodes what a backend emitted. Problem and config are not sent back: the host knows
// what it asked for.
func ToArtifact(a *kernel.Artifact) (*pb.EmitResponse, error) {
	if a == nil {
		return nil, invalid("the backend returned neither an artifact nor an error")
	}
	if len(a.Code) > MaxCode {
		return nil, invalid("artifact of %d bytes, at most %d", len(a.Code), MaxCode)
	}
	e := a.Exec
	out := &pb.EmitResponse{
		Kind: string(a.Kind), Abi: a.Key.ABI, Isa: a.Key.ISA, LayoutVersion: i32(a.Key.LayoutVersion), Code: a.Code,
		BackendName: a.Key.Backend.Name,
		Exec: &pb.Exec{Mr: i32(e.MR), Streams: i32(e.Streams), Panel: e.Panel, PanelStride: int64(e.PanelStride),
			Nc: i32(e.NC), Mc: i32(e.MC), Chunk: i32(e.Chunk), ScratchBytes: int64(e.ScratchBytes), Unit: int64(e.Unit)},
	}
	if len(a.Entries) > 0 {
		out.Entries = make(map[string]int64, len(a.Entries))
	}
	for n, off := range a.Entries {
		out.Entries[n] = int64(off)
	}
	return out, nil
}

// FromArtifact rebuilds the artifact that answers (p, c), under the identity that the host gave the
// backend. It checks sizes and ranges; Artifact.Validate checks the rest.
func FromArtifact(r *pb.EmitResponse, p kernel.Problem, c kernel.Config, id kernel.BackendID) (*kernel.Artifact, error) {
	switch {
	case len(r.GetCode()) > MaxCode:
		return nil, invalid("artifact of %d bytes, at most %d", len(r.GetCode()), MaxCode)
	case len(r.GetEntries()) > maxEntries:
		return nil, invalid("artifact with %d entries, at most %d", len(r.GetEntries()), maxEntries)
	case len(r.GetIsa()) > maxList:
		return nil, invalid("artifact that needs %d features, at most %d", len(r.GetIsa()), maxList)
	case r.GetBackendName() != "" && r.GetBackendName() != id.Name:
		return nil, invalid("artifact signed by backend %.40q, asked %q", r.GetBackendName(), id.Name)
	}
	for _, f := range r.GetIsa() {
		if !featureRE.MatchString(f) {
			return nil, invalid("artifact that needs feature %.40q", f)
		}
	}
	a := &kernel.Artifact{
		Key: kernel.ArtifactKey{Problem: p, Config: c.Clone(), LayoutVersion: int(r.GetLayoutVersion()),
			ISA: kernel.NewFeatures(r.GetIsa()...), ABI: r.GetAbi(), Backend: id},
		Kind: kernel.ArtifactKind(r.GetKind()), Code: r.GetCode(),
	}
	if len(r.GetEntries()) > 0 {
		a.Entries = make(map[string]int, len(r.GetEntries()))
	}
	for n, off := range r.GetEntries() {
		if !nameRE.MatchString(n) || off < 0 || off > MaxCode {
			return nil, invalid("artifact entry %.40q at %d", n, off)
		}
		a.Entries[n] = int(off)
	}
	var err error
	a.Exec, err = fromExec(r.GetExec())
	return a, err
}

func fromExec(e *pb.Exec) (kernel.Exec, error) {
	for name, v := range map[string]int64{"mr": int64(e.GetMr()), "streams": int64(e.GetStreams()),
		"panel_stride": e.GetPanelStride(), "nc": int64(e.GetNc()), "mc": int64(e.GetMc()), "chunk": int64(e.GetChunk()),
		"scratch_bytes": e.GetScratchBytes(), "unit": e.GetUnit()} {
		if v < 0 || v > math.MaxInt32 {
			return kernel.Exec{}, invalid("artifact exec.%s is %d", name, v)
		}
	}
	return kernel.Exec{MR: int(e.GetMr()), Streams: int(e.GetStreams()), Panel: e.GetPanel(),
		PanelStride: int(e.GetPanelStride()), NC: int(e.GetNc()), MC: int(e.GetMc()), Chunk: int(e.GetChunk()),
		ScratchBytes: int(e.GetScratchBytes()), Unit: int(e.GetUnit())}, nil
}
