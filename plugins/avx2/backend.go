// Package avx2 is the backend for x86-64 processors with AVX2, FMA and F16C.
package avx2

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/x86"
)

// Name is the backend's name.
const Name = "avx2"

// New returns the backend; digest identifies its sources.
func New(digest string) kernel.Backend {
	return x86.Backend{ISA: x86.AVX2, ID: kernel.BackendID{Name: Name, Digest: digest},
		Doc: "machine code for AVX2: VPMADDUBSW, VPMADDWD and FMA on 256-bit vectors"}
}
