package kernel

import "unsafe"

// Func is a callable entry of an artifact: generated code behind kernel/jit or a portable kernel of
// kernel/ref. args points to the op's argument block.
type Func func(args unsafe.Pointer)
