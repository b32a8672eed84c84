package kernel

import "unsafe"

// Entry ABIs. leaf/2: the first integer argument register (RDI, X0) holds the address of the op's
// argument block; every register but the stack pointer and RBP/X29 may be clobbered (X18 and X28
// too are left alone on arm64); the direction flag is clear, MXCSR/FPCR untouched; no stack is
// used; a call takes at most 200 us (leaf/1 was the same without the blocks' scratch memory). sysv/1: an ordinary C function of one pointer, own stack.
const (
	ABILeaf = "leaf/2"
	ABISysV = "sysv/1"
	ABIGo   = "go/1" // portable kernel of kernel/ref, called through Func
)

// MaxCallBytes bounds the weight bytes of one call, but for kernels whose streams are longer together, so that
// a call stays under 200 us.
const MaxCallBytes = 768 << 10

// Argument blocks hold unsafe.Pointer and int64 only and live off the Go heap or are pinned for
// the call: a uintptr to movable memory would go stale when a stack moves. Strides are in bytes.

// LinearArgs is the block of OpLinear. Entry "main" computes Panels panels (a multiple of
// Exec.Streams) for one block of MR rows; entry "tail" takes one panel at a time when
// Exec.Streams > 1. Out[m][n] is f32, overwritten; all MR rows and all NR channels of each panel are
// written. If Exec.Panel, W is the unpacked panel that entry "unpack" filled (PanelStride apart).
type LinearArgs struct {
	W      unsafe.Pointer // codes of the first panel
	S      unsafe.Pointer // scales of the first panel
	A      unsafe.Pointer // packed activations of the row block (Act)
	AScale unsafe.Pointer // f32 [K/Group][MR]
	ASum   unsafe.Pointer // int32 or f32 [K/Group][MR]
	Out    unsafe.Pointer // f32, first row, first channel
	Panels int64
	LDC    int64          // bytes between rows of Out
	Tmp    unsafe.Pointer // scratch, Exec.ScratchBytes, 64-byte aligned
}

// UnpackArgs is the block of the entry "unpack": Panels panels of codes -> Exec.PanelStride bytes
// each at Out. A8: 8-bit codes in the 8-bit run order; A16: 16-bit codes, runs in the A16 step
// order; F32: whatever "main" wants.
type UnpackArgs struct {
	W, S, Out unsafe.Pointer
	Panels    int64
}

// QuantArgs is the block of OpQuant: one row. The row is row m of a block of MR: A, Scale and Sum
// already point at its first dword / entry; steps are MR*4 bytes apart.
type QuantArgs struct {
	X     unsafe.Pointer // f32 [K]; PreAddNorm writes the sum back; PreGLU: the gate
	Y     unsafe.Pointer // PreAddNorm: delta; PreGLU: up; f32 [K]
	W     unsafe.Pointer // norm weight f32 [K]
	A     unsafe.Pointer
	Scale unsafe.Pointer
	Sum   unsafe.Pointer
	Eps   unsafe.Pointer // *float32
	Tmp   unsafe.Pointer // scratch, Exec.ScratchBytes, 64-byte aligned
}

// RopeArgs is the block of OpRope: Heads heads of Dim floats, X stride Dim*4. For each head
// x += Bias (if not nil); if Norm: rmsnorm(x)*W; rotate halves over the first Rot dims,
// x[i]' = x[i]*Cos[i] - x[i+Rot/2]*Sin[i], x[i+Rot/2]' = x[i+Rot/2]*Cos[i] + x[i]*Sin[i];
// multiply by *Scale; store element i of head h at Out + h*HeadStride + i*ElemStride as Elem.
type RopeArgs struct {
	X, Bias, W unsafe.Pointer
	Cos, Sin   unsafe.Pointer // f32 [Rot/2]
	Eps, Scale unsafe.Pointer // *float32
	Out        unsafe.Pointer
	Heads      int64
	HeadStride int64
	ElemStride int64
}

// RopeRowsArgs is the block of the entry "rows" of OpRope, which a backend may leave out: main for Rows
// tokens in one call. From one token to the next X moves by XStride, Cos and Sin by TurnStride, Out by
// RowStride; Bias and W stay. Either ElemStride is that of adjacent elements, or those of heads and of
// tokens are: HeadStride is the size of an element and RowStride is Heads of them. Then whole vectors
// can be stored.
type RopeRowsArgs struct {
	RopeArgs
	Rows       int64
	XStride    int64
	TurnStride int64
	RowStride  int64
	Tmp        unsafe.Pointer // scratch, Exec.ScratchBytes, 64-byte aligned
}

// AttnArgs is the block of OpAttn: M query rows (already scaled) against Blocks blocks of 16
// positions. Row r sees positions p (counted from the first of this call) with Lo[r] <= p < Hi[r].
// Max, Sum and Acc are the running state of the online softmax: start with -Inf, 0, 0; a row that
// saw nothing keeps them. After the last call the result is Acc/Sum.
type AttnArgs struct {
	Q      unsafe.Pointer // f32 [Dim][M]
	K      unsafe.Pointer // Elem [Blocks][Dim][16]
	V      unsafe.Pointer // Elem [Blocks*16][Dim]
	Lo, Hi unsafe.Pointer // int32 [M]
	Max    unsafe.Pointer // f32 [M]
	Sum    unsafe.Pointer // f32 [M]
	Acc    unsafe.Pointer // f32 [M][Dim]
	Tmp    unsafe.Pointer // scratch, Exec.ScratchBytes, 64-byte aligned
	Blocks int64
}

// ScaleArgs is the block of OpScale: Out[i] = X[i] * *F for N floats.
type ScaleArgs struct {
	X, Out, F unsafe.Pointer
	N         int64
}

// PackArgs is the block of OpPack: NR rows of K weights to one panel's codes at Dst. Without a Source
// a row is K unsigned 8-bit codes (K a multiple of 16), rows lie SrcStride bytes apart from Src, and
// Rows and Scales are nil. With one a row is K/Weights blocks, row c of the panel at Src + Rows[c],
// in any order; the scales of the blocks go to the panel's scales at Scales as well. Nothing outside
// of the rows is read. A caller with fewer rows gives one twice, and pads the panel itself. Of floats
// that cannot be quantised some scale of the panel, not always their own, becomes NaN or infinite.
type PackArgs struct {
	Src, Dst  unsafe.Pointer
	K         int64
	SrcStride int64
	Rows      unsafe.Pointer // int64 [NR]: bytes
	Scales    unsafe.Pointer
}

// ProbeArgs is the block of OpStream (reads Bytes bytes at Buf; a multiple of Exec.Unit) and OpPeak
// (Iters iterations of Exec.Unit multiply-accumulates each; Buf holds 4 KiB of operands).
type ProbeArgs struct {
	Buf   unsafe.Pointer
	Bytes int64
	Iters int64
}
