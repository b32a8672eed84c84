package amd64

// Floating point: arithmetic, logic, rounding, comparison, conversion.
var (
	VADDPS    = Inst{"vaddps", x0F | 0x58, rvm, f4, both, 0}
	VSUBPS    = Inst{"vsubps", x0F | 0x5c, rvm, f4, both, 0}
	VMULPS    = Inst{"vmulps", x0F | 0x59, rvm, f4, both, 0}
	VDIVPS    = Inst{"vdivps", x0F | 0x5e, rvm, f4, both, 0}
	VMINPS    = Inst{"vminps", x0F | 0x5d, rvm, f4, both, 0}
	VMAXPS    = Inst{"vmaxps", x0F | 0x5f, rvm, f4, both, 0}
	VSQRTPS   = Inst{"vsqrtps", x0F | 0x51, rm, f4, both, 0}
	VHADDPS   = Inst{"vhaddps", pF2 | x0F | 0x7c, rvm, fm, vex, 0}
	VANDPS    = Inst{"vandps", x0F | 0x54, rvm, f4, both, 0} // EVEX needs AVX512DQ, as the next three
	VANDNPS   = Inst{"vandnps", x0F | 0x55, rvm, f4, both, 0}
	VORPS     = Inst{"vorps", x0F | 0x56, rvm, f4, both, 0}
	VXORPS    = Inst{"vxorps", x0F | 0x57, rvm, f4, both, 0}
	VCMPPS    = Inst{"vcmpps", x0F | 0xc2, rvmi, f4, both, kDst}
	VROUNDPS  = Inst{"vroundps", p66 | x3A | 0x08, rmi, fm, vex, 0}
	VROUNDSS  = Inst{"vroundss", p66 | x3A | 0x0a, rvmi, t4, vex, lX}
	VUCOMISS  = Inst{"vucomiss", x0F | 0x2e, rm, t4, both, lX | noMask}
	VADDSS    = Inst{"vaddss", pF3 | x0F | 0x58, rvm, t4, both, lX}
	VSUBSS    = Inst{"vsubss", pF3 | x0F | 0x5c, rvm, t4, both, lX}
	VMULSS    = Inst{"vmulss", pF3 | x0F | 0x59, rvm, t4, both, lX}
	VDIVSS    = Inst{"vdivss", pF3 | x0F | 0x5e, rvm, t4, both, lX}
	VMINSS    = Inst{"vminss", pF3 | x0F | 0x5d, rvm, t4, both, lX}
	VMAXSS    = Inst{"vmaxss", pF3 | x0F | 0x5f, rvm, t4, both, lX}
	VSQRTSS   = Inst{"vsqrtss", pF3 | x0F | 0x51, rvm, t4, both, lX}
	VCVTSI2SS = Inst{"vcvtsi2ss", pF3 | x0F | 0x2a, rvm, t4, both, lX | rmG | noMask}

	VRNDSCALEPS = Inst{"vrndscaleps", p66 | x3A | 0x08, rmi, f4, evex, 0}
	VSCALEFPS   = Inst{"vscalefps", p66 | x38 | 0x2c, rvm, f4, evex, 0}
	VRCP14PS    = Inst{"vrcp14ps", p66 | x38 | 0x4c, rm, f4, evex, 0}
	VGETEXPPS   = Inst{"vgetexpps", p66 | x38 | 0x42, rm, f4, evex, 0}
	VGETMANTPS  = Inst{"vgetmantps", p66 | x3A | 0x26, rmi, f4, evex, 0}

	// Fused multiply-add: 132 dst*src3+src2, 213 src2*dst+src3, 231 src2*src3+dst.
	VFMADD132PS  = Inst{"vfmadd132ps", p66 | x38 | 0x98, rvm, f4, both, 0}
	VFMADD213PS  = Inst{"vfmadd213ps", p66 | x38 | 0xa8, rvm, f4, both, 0}
	VFMADD231PS  = Inst{"vfmadd231ps", p66 | x38 | 0xb8, rvm, f4, both, 0}
	VFMSUB132PS  = Inst{"vfmsub132ps", p66 | x38 | 0x9a, rvm, f4, both, 0}
	VFMSUB213PS  = Inst{"vfmsub213ps", p66 | x38 | 0xaa, rvm, f4, both, 0}
	VFNMSUB231PS = Inst{"vfnmsub231ps", p66 | x38 | 0xbe, rvm, f4, both, 0}
	VFMSUB231PS  = Inst{"vfmsub231ps", p66 | x38 | 0xba, rvm, f4, both, 0}
	VFNMADD132PS = Inst{"vfnmadd132ps", p66 | x38 | 0x9c, rvm, f4, both, 0}
	VFNMADD213PS = Inst{"vfnmadd213ps", p66 | x38 | 0xac, rvm, f4, both, 0}
	VFNMADD231PS = Inst{"vfnmadd231ps", p66 | x38 | 0xbc, rvm, f4, both, 0}
	VFMADD132SS  = Inst{"vfmadd132ss", p66 | x38 | 0x99, rvm, t4, both, lX}
	VFMADD213SS  = Inst{"vfmadd213ss", p66 | x38 | 0xa9, rvm, t4, both, lX}
	VFMADD231SS  = Inst{"vfmadd231ss", p66 | x38 | 0xb9, rvm, t4, both, lX}
	VFNMADD231SS = Inst{"vfnmadd231ss", p66 | x38 | 0xbd, rvm, t4, both, lX}

	VCVTDQ2PS      = Inst{"vcvtdq2ps", x0F | 0x5b, rm, f4, both, 0}
	VCVTPS2DQ      = Inst{"vcvtps2dq", p66 | x0F | 0x5b, rm, f4, both, 0}
	VCVTTPS2DQ     = Inst{"vcvttps2dq", pF3 | x0F | 0x5b, rm, f4, both, 0}
	VCVTPH2PS      = Inst{"vcvtph2ps", p66 | x38 | 0x13, rm, hm, both, rmHalf}
	VCVTPS2PH      = Inst{"vcvtps2ph", p66 | x3A | 0x1d, mri, hm, both, rmHalf}
	VCVTNEPS2BF16  = Inst{"vcvtneps2bf16", pF3 | x38 | 0x72, rm, f4, evex, regHalf}
	VCVTNE2PS2BF16 = Inst{"vcvtne2ps2bf16", pF2 | x38 | 0x72, rvm, f4, evex, 0}
	VDPBF16PS      = Inst{"vdpbf16ps", pF3 | x38 | 0x52, rvm, f4, evex, 0}

	// AVX512-FP16.
	VADDPH      = Inst{"vaddph", map5 | 0x58, rvm, f2, evex, 0}
	VFMADD231PH = Inst{"vfmadd231ph", p66 | map6 | 0xb8, rvm, f2, evex, 0}
	VCVTPH2PSX  = Inst{"vcvtph2psx", p66 | map6 | 0x13, rm, h2, evex, rmHalf}
)
