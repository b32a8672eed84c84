// Package avxvnni is the backend for x86-64 processors with AVX2 and AVX-VNNI but no AVX-512.
package avxvnni

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/x86"
)

// Name is the backend's name.
const Name = "avxvnni"

// New returns the backend; digest identifies its sources.
func New(digest string) kernel.Backend {
	return x86.Backend{ISA: x86.AVXVNNI, ID: kernel.BackendID{Name: Name, Digest: digest},
		Doc: "machine code for AVX2 with AVX-VNNI: VPDPBUSD, VPDPWSSD and FMA on 256-bit vectors"}
}
