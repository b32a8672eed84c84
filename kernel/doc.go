// Package kernel is the contract that backends, the engine, the tuner and the cache share: what
// an operation is (Op, Problem), how weights are coded (Format) and laid out (Layout), what a
// backend may vary (Space, Config), what it emits (Artifact), and how generated code is called
// (the Args structs). It knows nothing of models, processes or files.
//
// Sub-packages: asm/amd64 and asm/arm64 assemble, jit owns executable memory, ref holds the
// scalar oracle and the portable kernels.
package kernel
