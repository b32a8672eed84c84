package model

import (
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

// Weights is the numeric mode of a run.
type Weights string

const (
	W4A8  Weights = "w4a8"  // int8 activations
	W4A16 Weights = "w4a16" // 16-bit integer activations
	F32   Weights = "f32"   // every weight as float32, exactly as in the file
)

// Arith is the arithmetic of quantised weights.
func (w Weights) Arith() kernel.Arith {
	switch w {
	case W4A8:
		return kernel.A8
	case W4A16:
		return kernel.A16
	}
	return kernel.F32
}

// Validate reports an unknown mode.
func (w Weights) Validate() error {
	switch w {
	case W4A8, W4A16, F32:
		return nil
	}
	return fmt.Errorf("unknown weights mode %q (w4a8, w4a16 or f32)", w)
}

// Numerics says how a model's weights are executed.
type Numerics struct {
	Weights Weights `json:"weights" key:"hard"`
	Requant int     `json:"requant,omitempty" key:"hard"` // group to requantise 4-bit weights to; 0 keeps the file's grid
}

// Validate reports an unknown mode or group.
func (n Numerics) Validate() error {
	switch n.Requant {
	case 0, 32, 64, 128:
		return n.Weights.Validate()
	}
	return fmt.Errorf("cannot requantise to groups of %d (32, 64 or 128)", n.Requant)
}

// Checkpoint gives the weights of a model. Implementations are safe for concurrent use.
type Checkpoint interface {
	// Matrix returns a weight matrix; layer is -1 for the head and the embedding.
	Matrix(r Role, layer int) (Matrix, error)
	// Embedding returns the embedding's rows.
	Embedding() (Matrix, error)
	// Vector returns a vector, nil if the model has none.
	Vector(v Vec, layer int) ([]float32, error)
	Close() error
}

// Matrix reads rows of an N x K weight matrix. Rows come in the order that the engine wants: q and k
// such that halves rotate.
type Matrix interface {
	// Source names the stored tensor and its type.
	Source() (name, typ string)
	// Native is the format that holds the stored weights exactly.
	Native() kernel.Format
	// Blocks is row n as it is stored, BlockNone if OpPack reads no such rows. The type's Format is
	// Native. It does not check scales or weights, as Row does.
	Blocks(n int) (kernel.Block, []byte)
	// Row writes row n in format f: codes (K) with their scales, or floats (K). Codes of
	// another format than Native are made by quantising the stored values.
	Row(n int, f kernel.Format, dst Row) error
	// Floats writes row n as stored, dequantised.
	Floats(n int, dst []float32) error
}

// Row receives one row of weights.
type Row struct {
	Codes []byte
	kernel.ScaleSet
	Floats []float32
}

// Model is a shape with its weights.
type Model struct {
	Spec       *Spec
	Checkpoint Checkpoint // nil for a preset: weights are pseudo-random
}

// Close releases the file behind the model.
func (m *Model) Close() error {
	if m.Checkpoint == nil {
		return nil
	}
	return m.Checkpoint.Close()
}

// Format is the format in which a part is executed.
func (m *Model) Format(r Role, layer, k int, n Numerics) (kernel.Format, error) {
	if n.Weights == F32 {
		return kernel.FormatF32, nil
	}
	if m.Checkpoint == nil {
		return synthetic(k, n.Requant)
	}
	w, err := m.Checkpoint.Matrix(r, layer)
	if err != nil {
		return kernel.Format{}, err
	}
	return Executed(w.Native(), r, k, n.Requant), nil
}

// Executed decides the format of a matrix from the one that holds its source: what is quantised
// keeps its own grid; plain floats become 4-bit groups of 32, 8-bit for the head (and with it a tied
// embedding); requant asks for 4-bit groups of that size instead, where K permits.
func Executed(native kernel.Format, r Role, k, requant int) kernel.Format {
	if requant != 0 {
		for g := requant; g >= 32; g /= 2 {
			if k%g == 0 {
				return kernel.Asym(g)
			}
		}
	}
	switch {
	case !native.IsFloat():
		return native
	case k%32 != 0:
		if native.Bits == 32 {
			return kernel.FormatF16
		}
		return native
	case r == RoleHead:
		return kernel.FormatQ8_0
	}
	return kernel.Asym(32)
}

// synthetic is the format of a preset: the widest group up to 128, or requant, that divides K.
func synthetic(k, requant int) (kernel.Format, error) {
	if requant == 0 {
		requant = 128
	}
	for g := requant; g >= 16; g /= 2 {
		if k%g == 0 {
			return kernel.Asym(g), nil
		}
	}
	return kernel.Format{}, fmt.Errorf("no group size divides K = %d", k)
}

// Segments lists the packed matrices of a region of a layer (-1 for the head).
func (m *Model) Segments(r Region, layer int, n Numerics) ([]Segment, error) {
	parts, k := m.Spec.Parts(r)
	formats := make([]kernel.Format, len(parts))
	for i, p := range parts {
		f, err := m.Format(p.Role, layer, k, n)
		if err != nil {
			return nil, fmt.Errorf("%s of layer %d: %w", p.Role, layer, err)
		}
		formats[i] = f
	}
	return Segments(parts, k, formats), nil
}

// Classes lists the kinds of packed matrices of the model, known before anything is loaded.
func (m *Model) Classes(n Numerics) ([]Class, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	var out []Class
	add := func(r Region, layer int) error {
		segs, err := m.Segments(r, layer, n)
		for _, s := range segs {
			out = addClass(out, s, layer)
		}
		return err
	}
	for layer := range m.Spec.Layers {
		for _, r := range LayerRegions {
			if err := add(r, layer); err != nil {
				return nil, err
			}
		}
	}
	return out, add(RegionHead, -1)
}

// MACs is the number of multiply-accumulates of the layers' linear products for one token, the head
// and attention apart.
func (s *Spec) MACs() int64 {
	var n int64
	for _, r := range LayerRegions {
		parts, k := s.Parts(r)
		for _, p := range parts {
			n += int64(p.Rows) * int64(k)
		}
	}
	return n * int64(len(s.Layers))
}
