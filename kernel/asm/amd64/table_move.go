package amd64

// Moves, broadcasts, shuffles, inserts and extracts. A name that ends in a further S stores
// (VMOVUPSS is vmovups to memory), in R broadcasts a general register, in X is the vector or
// memory form of vmovq.
var (
	VMOVDQU8    = Inst{"vmovdqu8", pF2 | x0F | 0x6f, rm, fm, evex, 0}
	VMOVDQU8S   = Inst{"vmovdqu8", pF2 | x0F | 0x7f, mr, fm, evex, memOnly}
	VMOVDQU16   = Inst{"vmovdqu16", pF2 | x0F | w1 | 0x6f, rm, fm, evex, 0}
	VMOVDQU16S  = Inst{"vmovdqu16", pF2 | x0F | w1 | 0x7f, mr, fm, evex, memOnly}
	VMOVDQU32   = Inst{"vmovdqu32", pF3 | x0F | 0x6f, rm, fm, evex, 0}
	VMOVDQU32S  = Inst{"vmovdqu32", pF3 | x0F | 0x7f, mr, fm, evex, memOnly}
	VMOVDQU     = Inst{"vmovdqu", pF3 | x0F | 0x6f, rm, fm, vex, 0}
	VMOVDQUS    = Inst{"vmovdqu", pF3 | x0F | 0x7f, mr, fm, vex, memOnly}
	VMOVUPS     = Inst{"vmovups", x0F | 0x10, rm, fm, both, 0}
	VMOVUPSS    = Inst{"vmovups", x0F | 0x11, mr, fm, both, memOnly}
	VMOVAPS     = Inst{"vmovaps", x0F | 0x28, rm, fm, both, 0}
	VMOVAPSS    = Inst{"vmovaps", x0F | 0x29, mr, fm, both, memOnly}
	VMOVNTPS    = Inst{"vmovntps", x0F | 0x2b, mr, fm, both, memOnly | noMask}
	VMOVNTDQA   = Inst{"vmovntdqa", p66 | x38 | 0x2a, rm, fm, both, memOnly | noMask}
	VMOVD       = Inst{"vmovd", p66 | x0F | 0x6e, rm, t4, both, rmG | lX | noMask}
	VMOVDS      = Inst{"vmovd", p66 | x0F | 0x7e, mr, t4, both, rmG | lX | noMask}
	VMOVQ       = Inst{"vmovq", p66 | x0F | w1 | 0x6e, rm, t8, both, rmG | lX | regOnly | noMask}
	VMOVQS      = Inst{"vmovq", p66 | x0F | w1 | 0x7e, mr, t8, both, rmG | lX | regOnly | noMask}
	VMOVQX      = Inst{"vmovq", pF3 | x0F | we1 | 0x7e, rm, t8, both, lX | noMask}
	VMOVQXS     = Inst{"vmovq", p66 | x0F | we1 | 0xd6, mr, t8, both, lX | memOnly | noMask}
	VMOVSS      = Inst{"vmovss", pF3 | x0F | 0x10, rm, t4, both, lX | memOnly}
	VMOVSSS     = Inst{"vmovss", pF3 | x0F | 0x11, mr, t4, both, lX | memOnly}
	VMOVHLPS    = Inst{"vmovhlps", x0F | 0x12, rvm, t8, both, lX | regOnly | noMask}
	VMOVLHPS    = Inst{"vmovlhps", x0F | 0x16, rvm, t8, both, lX | regOnly | noMask}
	VMOVSHDUP   = Inst{"vmovshdup", pF3 | x0F | 0x16, rm, fm, both, 0}
	VMOVSLDUP   = Inst{"vmovsldup", pF3 | x0F | 0x12, rm, fm, both, 0}
	VMASKMOVPS  = Inst{"vmaskmovps", p66 | x38 | 0x2c, rvm, fm, vex, memOnly}
	VMASKMOVPSS = Inst{"vmaskmovps", p66 | x38 | 0x2e, mvr, fm, vex, memOnly}
	VPMASKMOVD  = Inst{"vpmaskmovd", p66 | x38 | 0x8c, rvm, fm, vex, memOnly}
	VPMASKMOVDS = Inst{"vpmaskmovd", p66 | x38 | 0x8e, mvr, fm, vex, memOnly}
	VPGATHERDD  = Inst{"vpgatherdd", p66 | x38 | 0x90, rm, t4, evex, memOnly | vsib}
	VPSCATTERDD = Inst{"vpscatterdd", p66 | x38 | 0xa0, mr, t4, evex, memOnly | vsib}

	VBROADCASTSS    = Inst{"vbroadcastss", p66 | x38 | 0x18, rm, t4, both, rmX}
	VPBROADCASTB    = Inst{"vpbroadcastb", p66 | x38 | 0x78, rm, t1, both, rmX}
	VPBROADCASTW    = Inst{"vpbroadcastw", p66 | x38 | 0x79, rm, t2, both, rmX}
	VPBROADCASTD    = Inst{"vpbroadcastd", p66 | x38 | 0x58, rm, t4, both, rmX}
	VPBROADCASTQ    = Inst{"vpbroadcastq", p66 | x38 | we1 | 0x59, rm, t8, both, rmX}
	VPBROADCASTBR   = Inst{"vpbroadcastb", p66 | x38 | 0x7a, rm, t1, evex, rmG | regOnly}
	VPBROADCASTWR   = Inst{"vpbroadcastw", p66 | x38 | 0x7b, rm, t2, evex, rmG | regOnly}
	VPBROADCASTDR   = Inst{"vpbroadcastd", p66 | x38 | 0x7c, rm, t4, evex, rmG | regOnly}
	VBROADCASTF128  = Inst{"vbroadcastf128", p66 | x38 | 0x1a, rm, m16, vex, memOnly | lY}
	VBROADCASTI128  = Inst{"vbroadcasti128", p66 | x38 | 0x5a, rm, m16, vex, memOnly | lY}
	VBROADCASTF32X4 = Inst{"vbroadcastf32x4", p66 | x38 | 0x1a, rm, m16, evex, memOnly | lYZ}
	VBROADCASTI32X4 = Inst{"vbroadcasti32x4", p66 | x38 | 0x5a, rm, m16, evex, memOnly | lYZ}
	VBROADCASTF64X4 = Inst{"vbroadcastf64x4", p66 | x38 | w1 | 0x1b, rm, m32, evex, memOnly | lZ}
	VBROADCASTI64X4 = Inst{"vbroadcasti64x4", p66 | x38 | w1 | 0x5b, rm, m32, evex, memOnly | lZ}

	VINSERTF128   = Inst{"vinsertf128", p66 | x3A | 0x18, rvmi, m16, vex, rmX | lY}
	VINSERTI128   = Inst{"vinserti128", p66 | x3A | 0x38, rvmi, m16, vex, rmX | lY}
	VEXTRACTF128  = Inst{"vextractf128", p66 | x3A | 0x19, mri, m16, vex, rmX | lY}
	VEXTRACTI128  = Inst{"vextracti128", p66 | x3A | 0x39, mri, m16, vex, rmX | lY}
	VINSERTF32X4  = Inst{"vinsertf32x4", p66 | x3A | 0x18, rvmi, m16, evex, rmX | lYZ}
	VINSERTI32X4  = Inst{"vinserti32x4", p66 | x3A | 0x38, rvmi, m16, evex, rmX | lYZ}
	VEXTRACTF32X4 = Inst{"vextractf32x4", p66 | x3A | 0x19, mri, m16, evex, rmX | lYZ}
	VEXTRACTI32X4 = Inst{"vextracti32x4", p66 | x3A | 0x39, mri, m16, evex, rmX | lYZ}
	VINSERTF64X4  = Inst{"vinsertf64x4", p66 | x3A | w1 | 0x1a, rvmi, m32, evex, rmHalf | lZ}
	VINSERTI64X4  = Inst{"vinserti64x4", p66 | x3A | w1 | 0x3a, rvmi, m32, evex, rmHalf | lZ}
	VEXTRACTF64X4 = Inst{"vextractf64x4", p66 | x3A | w1 | 0x1b, mri, m32, evex, rmHalf | lZ}
	VEXTRACTI64X4 = Inst{"vextracti64x4", p66 | x3A | w1 | 0x3b, mri, m32, evex, rmHalf | lZ}
	VEXTRACTPS    = Inst{"vextractps", p66 | x3A | 0x17, mri, t4, both, rmG | lX | noMask}
	VPEXTRB       = Inst{"vpextrb", p66 | x3A | 0x14, mri, t1, both, rmG | lX | noMask}
	VPEXTRW       = Inst{"vpextrw", p66 | x3A | 0x15, mri, t2, both, rmG | lX | memOnly | noMask}
	VPEXTRD       = Inst{"vpextrd", p66 | x3A | 0x16, mri, t4, both, rmG | lX | noMask}
	VPEXTRQ       = Inst{"vpextrq", p66 | x3A | w1 | 0x16, mri, t8, both, rmG | lX | noMask}
	VPINSRB       = Inst{"vpinsrb", p66 | x3A | 0x20, rvmi, t1, both, rmG | lX | noMask}
	VPINSRW       = Inst{"vpinsrw", p66 | x0F | 0xc4, rvmi, t2, both, rmG | lX | noMask}
	VPINSRD       = Inst{"vpinsrd", p66 | x3A | 0x22, rvmi, t4, both, rmG | lX | noMask}
	VPINSRQ       = Inst{"vpinsrq", p66 | x3A | w1 | 0x22, rvmi, t8, both, rmG | lX | noMask}
	VINSERTPS     = Inst{"vinsertps", p66 | x3A | 0x21, rvmi, t4, both, lX | noMask}

	VPERMB     = Inst{"vpermb", p66 | x38 | 0x8d, rvm, fm, evex, 0}
	VPERMW     = Inst{"vpermw", p66 | x38 | w1 | 0x8d, rvm, fm, evex, 0}
	VPERMD     = Inst{"vpermd", p66 | x38 | 0x36, rvm, f4, both, lYZ}
	VPERMPS    = Inst{"vpermps", p66 | x38 | 0x16, rvm, f4, both, lYZ}
	VPERMQ     = Inst{"vpermq", p66 | x3A | w1, rmi, f8, both, lYZ}
	VPERMILPS  = Inst{"vpermilps", p66 | x3A | 0x04, rmi, f4, both, 0}
	VPERM2F128 = Inst{"vperm2f128", p66 | x3A | 0x06, rvmi, fm, vex, lY}
	VPERM2I128 = Inst{"vperm2i128", p66 | x3A | 0x46, rvmi, fm, vex, lY}
	VPERMI2D   = Inst{"vpermi2d", p66 | x38 | 0x76, rvm, f4, evex, 0}
	VPERMI2PS  = Inst{"vpermi2ps", p66 | x38 | 0x77, rvm, f4, evex, 0}
	VPERMT2D   = Inst{"vpermt2d", p66 | x38 | 0x7e, rvm, f4, evex, 0}
	VPERMT2PS  = Inst{"vpermt2ps", p66 | x38 | 0x7f, rvm, f4, evex, 0}
	VSHUFF32X4 = Inst{"vshuff32x4", p66 | x3A | 0x23, rvmi, f4, evex, lYZ}
	VSHUFI32X4 = Inst{"vshufi32x4", p66 | x3A | 0x43, rvmi, f4, evex, lYZ}
	VSHUFPS    = Inst{"vshufps", x0F | 0xc6, rvmi, f4, both, 0}
	VPSHUFB    = Inst{"vpshufb", p66 | x38, rvm, fm, both, 0}
	VPSHUFD    = Inst{"vpshufd", p66 | x0F | 0x70, rmi, f4, both, 0}
	VPSHUFLW   = Inst{"vpshuflw", pF2 | x0F | 0x70, rmi, fm, both, 0}
	VPSHUFHW   = Inst{"vpshufhw", pF3 | x0F | 0x70, rmi, fm, both, 0}
	VPALIGNR   = Inst{"vpalignr", p66 | x3A | 0x0f, rvmi, fm, both, 0}
	VALIGND    = Inst{"valignd", p66 | x3A | 0x03, rvmi, f4, evex, 0}

	VUNPCKLPS   = Inst{"vunpcklps", x0F | 0x14, rvm, f4, both, 0}
	VUNPCKHPS   = Inst{"vunpckhps", x0F | 0x15, rvm, f4, both, 0}
	VPUNPCKLBW  = Inst{"vpunpcklbw", p66 | x0F | 0x60, rvm, fm, both, 0}
	VPUNPCKLWD  = Inst{"vpunpcklwd", p66 | x0F | 0x61, rvm, fm, both, 0}
	VPUNPCKLDQ  = Inst{"vpunpckldq", p66 | x0F | 0x62, rvm, f4, both, 0}
	VPUNPCKLQDQ = Inst{"vpunpcklqdq", p66 | x0F | we1 | 0x6c, rvm, f8, both, 0}
	VPUNPCKHBW  = Inst{"vpunpckhbw", p66 | x0F | 0x68, rvm, fm, both, 0}
	VPUNPCKHWD  = Inst{"vpunpckhwd", p66 | x0F | 0x69, rvm, fm, both, 0}
	VPUNPCKHDQ  = Inst{"vpunpckhdq", p66 | x0F | 0x6a, rvm, f4, both, 0}
	VPUNPCKHQDQ = Inst{"vpunpckhqdq", p66 | x0F | we1 | 0x6d, rvm, f8, both, 0}

	VBLENDPS  = Inst{"vblendps", p66 | x3A | 0x0c, rvmi, fm, vex, 0}
	VPBLENDD  = Inst{"vpblendd", p66 | x3A | 0x02, rvmi, fm, vex, 0}
	VBLENDVPS = Inst{"vblendvps", p66 | x3A | 0x4a, rvms, fm, vex, 0}
	VPBLENDVB = Inst{"vpblendvb", p66 | x3A | 0x4c, rvms, fm, vex, 0}
	VBLENDMPS = Inst{"vblendmps", p66 | x38 | 0x65, rvm, f4, evex, 0}
	VPBLENDMD = Inst{"vpblendmd", p66 | x38 | 0x64, rvm, f4, evex, 0}
	VPMOVMSKB = Inst{"vpmovmskb", p66 | x0F | 0xd7, gm, fm, vex, regOnly}
	VMOVMSKPS = Inst{"vmovmskps", x0F | 0x50, gm, fm, vex, regOnly}
)
