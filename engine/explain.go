package engine

import (
	"math"
	"sort"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// Explanation says what an engine runs: each weight matrix with its format and kernels, and the
// kernels of the other ops.
type Explanation struct {
	Matrices []MatrixInfo `json:"matrices"`
	Kernels  []KernelInfo `json:"kernels"` // of ops other than linear
}

// MatrixInfo describes one matrix of the model as it is executed.
type MatrixInfo struct {
	Role    model.Role    `json:"role"`
	Layer   int           `json:"layer"` // -1: the head
	N       int           `json:"n"`
	K       int           `json:"k"`
	Tensor  string        `json:"tensor,omitempty"` // in the file; empty for a preset
	Type    string        `json:"type,omitempty"`   // in the file
	Format  kernel.Format `json:"format"`
	Layout  kernel.Layout `json:"layout"`
	Class   string        `json:"class"`             // of the packed matrix that it is a part of
	Kept    bool          `json:"kept"`              // the stored values are met exactly
	Error   float64       `json:"error,omitempty"`   // else: rms difference over rms, on sampled rows
	Kernels []KernelInfo  `json:"kernels,omitempty"` // by tuning point of M
}

// KernelInfo names a kernel.
type KernelInfo struct {
	M       int            `json:"m,omitempty"` // tuning point
	Problem kernel.Problem `json:"problem"`
	Backend string         `json:"backend"`
	Config  kernel.Config  `json:"config"`
	Digest  string         `json:"digest"` // of the artifact
	Key     string         `json:"key"`    // digest of the artifact's key
}

func infoOf(m int, k *exec.Kernel) KernelInfo {
	key := k.Artifact.Key
	return KernelInfo{M: m, Problem: key.Problem, Backend: key.Backend.Name, Config: key.Config,
		Digest: k.Digest, Key: key.Digest()}
}

// Explain describes all matrices, in the order of a pass, and the other kernels in use.
func (e *Engine) Explain() (*Explanation, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	x := &Explanation{}
	for _, r := range e.regions() {
		for i, t := range r.Segs {
			kernels := pointsOf(r, i)
			for part, p := range t.Parts {
				info := MatrixInfo{Role: p.Role, Layer: r.Layer, N: p.Rows, K: t.K, Format: t.Format, Layout: t.Layout,
					Class: model.Class{Role: t.Role, N: t.N, K: t.K, Format: t.Format}.String(), Kept: true, Kernels: kernels}
				if err := e.compare(&info, t, part); err != nil {
					return nil, err
				}
				x.Matrices = append(x.Matrices, info)
			}
		}
	}
	for _, k := range e.lib.Kernels() {
		if op := k.Artifact.Key.Problem.Op; op != kernel.OpLinear && op != kernel.OpPack {
			x.Kernels = append(x.Kernels, infoOf(0, k))
		}
	}
	return x, nil
}

// pointsOf lists the kernels of segment i by tuning point.
func pointsOf(r *linear.Region, i int) []KernelInfo {
	var out []KernelInfo
	for m, p := range r.Points() {
		out = append(out, infoOf(m, p.Kernels[i]))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].M < out[j].M })
	return out
}

// sampledRows is how many rows of a matrix are compared with the file.
const sampledRows = 8

// compare measures how far the packed form of a part is from the stored values.
func (e *Engine) compare(info *MatrixInfo, t *weights.Tensor, part int) error {
	if e.Model.Checkpoint == nil {
		return nil
	}
	m, err := e.Model.Checkpoint.Matrix(info.Role, info.Layer)
	if err != nil {
		return err
	}
	info.Tensor, info.Type = m.Source()
	first := 0
	for _, p := range t.Parts[:part] {
		first += p.Rows
	}
	stored, packed := make([]float32, t.K), make([]float32, t.K)
	var diff, ref float64
	for i := range min(sampledRows, info.N) {
		n := i * info.N / min(sampledRows, info.N)
		if err := m.Floats(n, stored); err != nil {
			return err
		}
		if err := t.Row(first+n, packed); err != nil {
			return err
		}
		for k, v := range stored {
			d := float64(v) - float64(packed[k])
			diff += d * d
			ref += float64(v) * float64(v)
		}
	}
	if diff > 0 {
		info.Kept, info.Error = false, math.Sqrt(diff/ref)
	}
	return nil
}
