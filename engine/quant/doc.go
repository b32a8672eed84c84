// Package quant turns the block types of checkpoints into the engine's codes. A tensor that is
// already quantised keeps its own grid: Codes yields unsigned codes, scales and offsets of a
// kernel.Format with w = s*(q - Bias) + m, for every type exactly. Dequant gives the float32 values of
// a type, bit for bit those of ggml.
//
// Products and differences are rounded one at a time, on every architecture: a fused multiply-add
// would differ in the last bit, so each is an explicit float32 conversion.
package quant
