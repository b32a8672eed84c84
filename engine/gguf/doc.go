// Package gguf reads GGUF checkpoints (versions 2 and 3, little-endian) from a memory map: typed
// metadata, tensors as slices of the map, and the hyper-parameters of the architectures that the
// engine runs. Every claim of a file is checked against its bytes before anything is allocated for
// it, and every text that comes from a file is quoted in errors.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf
