// Package avx512 is the backend for x86-64 processors with AVX-512 F, BW, VL and VNNI.
package avx512

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/x86"
)

// Name is the backend's name.
const Name = "avx512"

// New returns the backend; digest identifies its sources.
func New(digest string) kernel.Backend {
	return x86.Backend{ISA: x86.AVX512, ID: kernel.BackendID{Name: Name, Digest: digest},
		Doc: "machine code for AVX-512: VPDPBUSD, VPDPWSSD and FMA on 512-bit vectors"}
}
