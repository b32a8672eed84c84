package model

import (
	"fmt"
	"sync"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/quant"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// FromGGUF describes the model in a GGUF file. Closing the model closes the file.
func FromGGUF(f *gguf.File) (*Model, error) {
	c, err := gguf.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	s := &Spec{
		Arch: c.Arch, Name: c.Name, Hidden: c.Hidden, FFN: c.FFN, Vocab: c.Vocab, Heads: c.Heads,
		KVHeads: c.KVHeads, HeadDim: c.HeadDim, Context: c.Context, Eps: c.Eps, Layers: make([]Layer, c.Layers),
		Ropes: []Rope{ropeOf(c.Rope)}, Gate: c.Act, QKNorm: c.QKNorm, QKVBias: c.QKVBias, OutBias: c.OutBias,
		PostNorms: c.PostNorms, Tied: c.TiedHead, EmbedScale: c.EmbedScale, QueryScale: c.QueryScale,
	}
	if s.Name == "" {
		s.Name = c.Arch
	}
	if c.HeadGate {
		s.HeadGate = HeadGateSigmoid
	}
	for i, slides := range c.Sliding {
		if !slides {
			continue
		}
		if len(s.Ropes) == 1 {
			s.Ropes = append(s.Ropes, ropeOf(c.RopeLocal))
		}
		s.Layers[i] = Layer{Window: c.Window, Rope: 1}
	}
	return &Model{Spec: s, Checkpoint: &checkpoint{f: f, c: c}}, nil
}

func ropeOf(r gguf.Rope) Rope {
	out := NewRope(r.Base, r.Dims).Divide(r.Freqs)
	switch r.Type {
	case "linear":
		return out.Linear(r.Factor)
	case "yarn":
		return out.Yarn(r.Base, Yarn{Factor: r.Factor, Orig: float64(r.OrigCtx), Ext: r.ExtFactor,
			Attn: r.AttnFactor, BetaFast: r.BetaFast, BetaSlow: r.BetaSlow})
	}
	return out
}

// checkpoint reads a GGUF file.
type checkpoint struct {
	f *gguf.File
	c *gguf.Config
}

func (c *checkpoint) Close() error { return c.f.Close() }

var ggufNames = map[Role]string{RoleQ: "attn_q", RoleK: "attn_k", RoleV: "attn_v", RoleG: "attn_gate",
	RoleO: "attn_output", RoleGate: "ffn_gate", RoleUp: "ffn_up", RoleDown: "ffn_down"}

var ggufVectors = map[Vec]string{VecAttnNorm: "attn_norm.weight", VecQBias: "attn_q.bias", VecKBias: "attn_k.bias",
	VecVBias: "attn_v.bias", VecQNorm: "attn_q_norm.weight", VecKNorm: "attn_k_norm.weight",
	VecOutBias: "attn_output.bias", VecPostAttnNorm: "post_attention_norm.weight",
	VecFFNNorm: "ffn_norm.weight", VecPostFFNNorm: "post_ffw_norm.weight"}

func (c *checkpoint) tensor(name string) (*gguf.Tensor, error) {
	t := c.f.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("missing tensor %q", name)
	}
	return t, nil
}

func (c *checkpoint) Embedding() (Matrix, error) {
	t, err := c.tensor("token_embd.weight")
	if err != nil {
		return nil, err
	}
	return newMatrix(t, 0, 0, 0)
}

func (c *checkpoint) Matrix(r Role, layer int) (Matrix, error) {
	if r == RoleHead {
		if c.c.TiedHead {
			return c.Embedding()
		}
		t, err := c.tensor("output.weight")
		if err != nil {
			return nil, err
		}
		return newMatrix(t, 0, 0, 0)
	}
	name, first := ggufNames[r], c.fusedRow(r)
	if first >= 0 {
		name = "attn_qkv"
	}
	t, err := c.tensor(fmt.Sprintf("blk.%d.%s.weight", layer, name))
	if err != nil {
		return nil, err
	}
	return newMatrix(t, max(first, 0), c.paired(r), c.c.Rope.Dims)
}

// fusedRow is the first row of q, k or v in a fused tensor, -1 if r has a tensor of its own.
func (c *checkpoint) fusedRow(r Role) int {
	q, kv := c.c.Heads*c.c.HeadDim, c.c.KVHeads*c.c.HeadDim
	switch {
	case !c.c.FusedQKV:
		return -1
	case r == RoleQ:
		return 0
	case r == RoleK:
		return q
	case r == RoleV:
		return q + kv
	}
	return -1
}

// paired is the head size if the rows of r are ordered for pairs, else 0.
func (c *checkpoint) paired(r Role) int {
	if c.c.PairedRope && (r == RoleQ || r == RoleK) {
		return c.c.HeadDim
	}
	return 0
}

func (c *checkpoint) Vector(v Vec, layer int) ([]float32, error) {
	name := "output_norm.weight"
	if layer >= 0 {
		name = fmt.Sprintf("blk.%d.%s", layer, ggufVectors[v])
	}
	first, n, pair := 0, 0, 0
	if role, ok := map[Vec]Role{VecQBias: RoleQ, VecKBias: RoleK, VecVBias: RoleV}[v]; ok {
		pair = c.paired(role)
		n = c.c.KVHeads * c.c.HeadDim
		if role == RoleQ {
			n = c.c.Heads * c.c.HeadDim
		}
		if first = c.fusedRow(role); first >= 0 {
			name = fmt.Sprintf("blk.%d.attn_qkv.bias", layer)
		}
	}
	t, err := c.tensor(name)
	if err != nil {
		return nil, err
	}
	if err := quant.CheckFinite(t.Type, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	all := make([]float32, t.K())
	if err := quant.Dequant(t.Type, t.Data, all); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	if n == 0 {
		return all, nil
	}
	all = all[max(first, 0):][:n]
	out := make([]float32, n)
	for i := range out {
		out[i] = all[halves(i, pair, c.c.Rope.Dims)]
	}
	return out, nil
}

// halves is the stored row of row n when heads of size dim are stored with the rot rotating rows of
// pair i at 2i and 2i+1, and wanted with them at i and i + rot/2. dim 0 means stored as wanted.
func halves(n, dim, rot int) int {
	if dim == 0 || n%dim >= rot {
		return n
	}
	i := n % dim
	return n - i + i%(rot/2)*2 + i/(rot/2)
}

// matrix is some rows of a tensor.
type matrix struct {
	t      *gguf.Tensor
	first  int
	pair   int // head size of paired rows, else 0
	rot    int // rows of a head that rotate
	native kernel.Format
}

func newMatrix(t *gguf.Tensor, first, pair, rot int) (*matrix, error) {
	f, err := quant.FormatFor(t.Type, t.K())
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return &matrix{t, first, pair, rot, f}, nil
}

func (m *matrix) Source() (name, typ string) { return m.t.Name, m.t.Type.String() }

func (m *matrix) Native() kernel.Format { return m.native }

func (m *matrix) row(n int) []byte { return m.t.Row(m.first + halves(n, m.pair, m.rot)) }

func (m *matrix) Blocks(n int) (kernel.Block, []byte) { return quant.BlockOf(m.t.Type), m.row(n) }

func (m *matrix) Floats(n int, dst []float32) error {
	return m.wrap(quant.Dequant(m.t.Type, m.row(n), dst))
}

var floatRows sync.Pool // of *[]float32: rows on their way to other codes

func (m *matrix) Row(n int, f kernel.Format, dst Row) error {
	switch {
	case f.IsFloat():
		if err := m.Floats(n, dst.Floats); err != nil {
			return err
		}
		for k, v := range dst.Floats {
			if v-v != 0 {
				return m.wrap(fmt.Errorf("weight %d of row %d is %v", k, n, v))
			}
		}
		return nil
	case f == m.native:
		return m.wrap(quant.Codes(m.t.Type, m.row(n), dst.Codes, dst.ScaleSet))
	}
	buf, _ := floatRows.Get().(*[]float32)
	if buf == nil || cap(*buf) < m.t.K() {
		b := make([]float32, m.t.K())
		buf = &b
	}
	defer floatRows.Put(buf)
	x := (*buf)[:m.t.K()]
	if err := m.Floats(n, x); err != nil {
		return err
	}
	return m.wrap(ref.QuantizeRow(f, x, dst.Codes, dst.ScaleSet))
}

func (m *matrix) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("tensor %q: %w", m.t.Name, err)
	}
	return nil
}
