// Package ref holds the meaning of every op of package kernel, twice: oracles, plain slices and
// float64 written for clarity, against which all backends are tested; and portable kernels in pure
// Go with the exact argument blocks, which serve hosts without a faster backend and let the engine
// run anywhere. The oracles never read packed data, the kernels never call an oracle.
//
// # Quantised activations
//
// Integer activations (A8, A16) are quantised per group of a row: amax is the largest magnitude,
// s = amax/QMax in float32, q = x/s rounded to nearest even and clamped to [-QMax, QMax]. A kernel
// may multiply by QMax/amax instead of dividing: a code may then differ where x/s lies within
// rounding error of a tie, and s by its last bit. Dot products of codes are exact everywhere.
//
//   - amax 0: s = 0, all codes 0. So too when s would be subnormal: such a group is flushed to zero.
//   - A group with a NaN or an infinity: s is not finite (the portable kernel stores NaN), codes are
//     unspecified. Every output of that row is then NaN or infinite: a fault of the model shows, and
//     nothing crashes.
//
// With F32 activations no scale is written or read; Sum is kept for formats with a group.
package ref
