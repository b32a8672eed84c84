package kernel

import "fmt"

// Op is a kernel role. Each has one argument block (abi.go) and one oracle in kernel/ref.
type Op string

const (
	OpLinear Op = "linear" // out[M,N] = act[M,K] x weights[N,K]; decode GEMV and prefill GEMM tile
	OpQuant  Op = "quant"  // f32 rows -> packed activations, with a fused step before (Pre)
	OpRope   Op = "rope"   // per head: bias, norm, rotate, scale, convert, strided store
	OpAttn   Op = "attn"   // flash-style attention of Rows query rows over blocks of 16 positions
	OpScale  Op = "scale"  // out[i] = x[i] * f
	OpPack   Op = "pack"   // rows of 8-bit codes, or of blocks (Source) with their scales -> one panel of a Layout
	OpStream Op = "stream" // read-ceiling probe
	OpPeak   Op = "peak"   // arithmetic-peak probe
)

// Arith names the arithmetic of a linear op: the type of its activations.
type Arith string

const (
	A8  Arith = "a8"  // int8 per group: s_a = amax/127, q in [-127, 127], round to nearest even
	A16 Arith = "a16" // int16 per group: s_a = amax/32767, q in [-32767, 32767]
	F32 Arith = "f32" // float32 activations
)

// QMax is the largest activation code of an integer arithmetic, 0 for F32.
func (a Arith) QMax() int {
	switch a {
	case A8:
		return 127
	case A16:
		return 32767
	}
	return 0
}

// Bytes is the size of one activation element in a packed activation block.
func (a Arith) Bytes() int {
	switch a {
	case A8:
		return 1
	case A16:
		return 2
	}
	return 4
}

// Pre is the step fused before an activation is packed.
type Pre string

const (
	PreNone    Pre = "none"     // x
	PreNorm    Pre = "norm"     // rmsnorm(x) * w
	PreAddNorm Pre = "add_norm" // x += delta (written back), then rmsnorm(x) * w
	PreGLU     Pre = "glu"      // gate(x) * up
)

// Gate is the activation of a gated MLP.
type Gate string

const (
	GateNone    Gate = ""
	GateSiLU    Gate = "silu"
	GateGELU    Gate = "gelu"      // exact, erf
	GateGELUTan Gate = "gelu_tanh" // tanh approximation
)

// ElemType is a storage type of KV entries and of strided stores.
type ElemType string

const (
	ElemF32  ElemType = "f32"
	ElemF16  ElemType = "f16"
	ElemBF16 ElemType = "bf16"
)

// Bytes is the size of one element, in bytes.
func (t ElemType) Bytes() int {
	if t == ElemF32 {
		return 4
	}
	return 2
}

// KVBlock is the number of positions of one K block: K is stored transposed, [block][head_dim][16],
// so that sixteen scores are computed lane by lane; V is stored [position][head_dim].
const KVBlock = 16

// Act describes packed activations: what OpQuant writes and OpLinear reads.
//
// Rows come in blocks of MR. A block is K*Arith.Bytes()/4 steps of MR dwords: step t, row m is the
// dword at (t*MR+m)*4. A8: four consecutive k. F32: one k. A16: two k; every 8 k make four steps
// (k0,k2) (k4,k6) (k1,k3) (k5,k7), first of the pair in the low half, so that 4-bit weights unpack
// by shifts alone. Scale is f32 [K/Group][MR] and Sum [K/Group][MR] for each block, Sum being the
// sum of the codes (int32), or of the values (f32) for F32, whose Scale is neither written nor read.
// Group 0 (F32 for float weights) has no Sum either.
type Act struct {
	Arith Arith `json:"arith" key:"hard"`
	Group int   `json:"group" key:"hard"` // elements per scale, divides K; 0 for none
	MR    int   `json:"mr" key:"hard"`    // rows interleaved
}

// A16Order is the order of k within every 8 in A16 activations: step*2+half -> k.
var A16Order = [8]int{0, 2, 4, 6, 1, 3, 5, 7}

// BlockBytes is the size of the codes of one block of MR rows.
func (a Act) BlockBytes(k int) int { return k * a.Arith.Bytes() * a.MR }

// Groups is the number of scales of a row of k elements.
func (a Act) Groups(k int) int {
	if a.Group == 0 {
		return 0
	}
	return k / a.Group
}

// Problem is what a kernel must compute: op, shape, weight format, layout and arithmetic. Threads
// are not part of it. Unused fields are zero. Every field is part of the identity of an artifact.
type Problem struct {
	Op     Op     `json:"op" key:"hard"`
	Arith  Arith  `json:"arith,omitempty" key:"hard"`
	M      int    `json:"m,omitempty" key:"hard"` // OpLinear: tuning point of the M bucket; OpAttn: query rows
	N      int    `json:"n,omitempty" key:"hard"` // OpLinear: output channels, unpadded
	K      int    `json:"k,omitempty" key:"hard"` // OpLinear, OpQuant: reduction length
	Format Format `json:"format,omitzero" key:"hard"`
	Layout Layout `json:"layout,omitzero" key:"hard"`

	Source Block `json:"source,omitempty" key:"hard"` // OpPack: blocks that Format holds exactly; empty: 8-bit codes

	Act  Act      `json:"act,omitzero" key:"hard"`   // OpQuant: what to write; OpLinear: Group only (MR is a config's)
	Pre  Pre      `json:"pre,omitempty" key:"hard"`  // OpQuant
	Gate Gate     `json:"gate,omitempty" key:"hard"` // OpQuant with PreGLU
	Dim  int      `json:"dim,omitempty" key:"hard"`  // OpRope, OpAttn: head dimension
	Rot  int      `json:"rot,omitempty" key:"hard"`  // OpRope: rotated dimensions, 0 for none
	Norm bool     `json:"norm,omitempty" key:"hard"` // OpRope: per-head RMSNorm first
	Elem ElemType `json:"elem,omitempty" key:"hard"` // OpRope: stored type; OpAttn: KV type
}

func (p Problem) String() string {
	switch p.Op {
	case OpLinear:
		return fmt.Sprintf("linear/%s/m%d/%dx%d/%s/%s", p.Arith, p.M, p.N, p.K, p.Format, p.Layout)
	case OpQuant:
		return fmt.Sprintf("quant/%s-g%d-mr%d/k%d/%s%s", p.Act.Arith, p.Act.Group, p.Act.MR, p.K, p.Pre, p.Gate)
	case OpRope:
		return fmt.Sprintf("rope/d%d/rot%d/norm=%t/%s", p.Dim, p.Rot, p.Norm, p.Elem)
	case OpAttn:
		return fmt.Sprintf("attn/r%d/d%d/%s", p.M, p.Dim, p.Elem)
	case OpPack:
		if p.Source != BlockNone {
			return fmt.Sprintf("pack/%s/%s/%s", p.Source, p.Format, p.Layout)
		}
		return fmt.Sprintf("pack/%s/%s", p.Format, p.Layout)
	case OpPeak:
		return fmt.Sprintf("peak/%s", p.Arith)
	}
	return string(p.Op)
}

// mBuckets are the upper ends of the M buckets; mPoints the M at which each is tuned, 0 where it
// inherits from the bucket before it.
var (
	mBuckets = [...]int{1, 4, 8, 16, 32, 64, 128}
	mPoints  = [...]int{1, 4, 0, 16, 0, 64, 0, 512}
)

// MPoints are the M at which linear problems are tuned.
var MPoints = []int{1, 4, 16, 64, 512}

// MPoint returns the M at which the bucket of m is tuned: 1; 4 for 2 to 8; 16 for 9 to 32; 64 for
// 33 to 128; 512 above.
func MPoint(m int) int {
	i := MBucket(m)
	for mPoints[i] == 0 {
		i--
	}
	return mPoints[i]
}

// MBucket returns the index of the bucket of m: 1, 2-4, 5-8, 9-16, 17-32, 33-64, 65-128, 129+.
func MBucket(m int) int {
	for i, hi := range mBuckets {
		if m <= hi {
			return i
		}
	}
	return len(mBuckets)
}
