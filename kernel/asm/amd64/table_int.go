package amd64

// Integer arithmetic, logic, shifts, comparisons and width changes.
var (
	VPAND      = Inst{"vpand", p66 | x0F | 0xdb, rvm, fm, vex, 0}
	VPANDN     = Inst{"vpandn", p66 | x0F | 0xdf, rvm, fm, vex, 0}
	VPOR       = Inst{"vpor", p66 | x0F | 0xeb, rvm, fm, vex, 0}
	VPXOR      = Inst{"vpxor", p66 | x0F | 0xef, rvm, fm, vex, 0}
	VPANDD     = Inst{"vpandd", p66 | x0F | 0xdb, rvm, f4, evex, 0}
	VPANDND    = Inst{"vpandnd", p66 | x0F | 0xdf, rvm, f4, evex, 0}
	VPORD      = Inst{"vpord", p66 | x0F | 0xeb, rvm, f4, evex, 0}
	VPXORD     = Inst{"vpxord", p66 | x0F | 0xef, rvm, f4, evex, 0}
	VPTERNLOGD = Inst{"vpternlogd", p66 | x3A | 0x25, rvmi, f4, evex, 0}

	VPSRLW         = Inst{"vpsrlw", p66 | x0F | 0x71, vmi, fm, both, vexReg | ext(2)}
	VPSRAW         = Inst{"vpsraw", p66 | x0F | 0x71, vmi, fm, both, vexReg | ext(4)}
	VPSLLW         = Inst{"vpsllw", p66 | x0F | 0x71, vmi, fm, both, vexReg | ext(6)}
	VPSRLD         = Inst{"vpsrld", p66 | x0F | 0x72, vmi, f4, both, vexReg | ext(2)}
	VPSRAD         = Inst{"vpsrad", p66 | x0F | 0x72, vmi, f4, both, vexReg | ext(4)}
	VPSLLD         = Inst{"vpslld", p66 | x0F | 0x72, vmi, f4, both, vexReg | ext(6)}
	VPSRLQ         = Inst{"vpsrlq", p66 | x0F | we1 | 0x73, vmi, f8, both, vexReg | ext(2)}
	VPSLLQ         = Inst{"vpsllq", p66 | x0F | we1 | 0x73, vmi, f8, both, vexReg | ext(6)}
	VPSRLDQ        = Inst{"vpsrldq", p66 | x0F | 0x73, vmi, fm, both, vexReg | ext(3) | noMask}
	VPSLLVD        = Inst{"vpsllvd", p66 | x38 | 0x47, rvm, f4, both, 0}
	VPSRLVD        = Inst{"vpsrlvd", p66 | x38 | 0x45, rvm, f4, both, 0}
	VPSRAVD        = Inst{"vpsravd", p66 | x38 | 0x46, rvm, f4, both, 0}
	VPSLLVW        = Inst{"vpsllvw", p66 | x38 | w1 | 0x12, rvm, fm, evex, 0}
	VPSRLVW        = Inst{"vpsrlvw", p66 | x38 | w1 | 0x10, rvm, fm, evex, 0}
	VPSRAVW        = Inst{"vpsravw", p66 | x38 | w1 | 0x11, rvm, fm, evex, 0}
	VPMULTISHIFTQB = Inst{"vpmultishiftqb", p66 | x38 | w1 | 0x83, rvm, f8, evex, 0}
	VGF2P8AFFINEQB = Inst{"vgf2p8affineqb", p66 | x3A | w1 | 0xce, rvmi, f8, evex, 0}

	VPADDB     = Inst{"vpaddb", p66 | x0F | 0xfc, rvm, fm, both, 0}
	VPADDW     = Inst{"vpaddw", p66 | x0F | 0xfd, rvm, fm, both, 0}
	VPADDD     = Inst{"vpaddd", p66 | x0F | 0xfe, rvm, f4, both, 0}
	VPADDQ     = Inst{"vpaddq", p66 | x0F | we1 | 0xd4, rvm, f8, both, 0}
	VPADDSW    = Inst{"vpaddsw", p66 | x0F | 0xed, rvm, fm, both, 0}
	VPSUBB     = Inst{"vpsubb", p66 | x0F | 0xf8, rvm, fm, both, 0}
	VPSUBW     = Inst{"vpsubw", p66 | x0F | 0xf9, rvm, fm, both, 0}
	VPSUBD     = Inst{"vpsubd", p66 | x0F | 0xfa, rvm, f4, both, 0}
	VPMULLW    = Inst{"vpmullw", p66 | x0F | 0xd5, rvm, fm, both, 0}
	VPMULHW    = Inst{"vpmulhw", p66 | x0F | 0xe5, rvm, fm, both, 0}
	VPMULHRSW  = Inst{"vpmulhrsw", p66 | x38 | 0x0b, rvm, fm, both, 0}
	VPMULLD    = Inst{"vpmulld", p66 | x38 | 0x40, rvm, f4, both, 0}
	VPMADDWD   = Inst{"vpmaddwd", p66 | x0F | 0xf5, rvm, fm, both, 0}
	VPMADDUBSW = Inst{"vpmaddubsw", p66 | x38 | 0x04, rvm, fm, both, 0}
	VPSADBW    = Inst{"vpsadbw", p66 | x0F | 0xf6, rvm, fm, both, noMask}
	VPHADDD    = Inst{"vphaddd", p66 | x38 | 0x02, rvm, fm, vex, 0}
	VPSIGNB    = Inst{"vpsignb", p66 | x38 | 0x08, rvm, fm, vex, 0}
	VPSIGNW    = Inst{"vpsignw", p66 | x38 | 0x09, rvm, fm, vex, 0}
	VPSIGND    = Inst{"vpsignd", p66 | x38 | 0x0a, rvm, fm, vex, 0}
	VPABSB     = Inst{"vpabsb", p66 | x38 | 0x1c, rm, fm, both, 0}
	VPABSW     = Inst{"vpabsw", p66 | x38 | 0x1d, rm, fm, both, 0}
	VPABSD     = Inst{"vpabsd", p66 | x38 | 0x1e, rm, f4, both, 0}

	// Dot products: VEX needs AVX-VNNI, EVEX AVX512-VNNI.
	VPDPBUSD  = Inst{"vpdpbusd", p66 | x38 | 0x50, rvm, f4, both, 0}
	VPDPBUSDS = Inst{"vpdpbusds", p66 | x38 | 0x51, rvm, f4, both, 0}
	VPDPWSSD  = Inst{"vpdpwssd", p66 | x38 | 0x52, rvm, f4, both, 0}
	VPDPWSSDS = Inst{"vpdpwssds", p66 | x38 | 0x53, rvm, f4, both, 0}

	VPMINUB = Inst{"vpminub", p66 | x0F | 0xda, rvm, fm, both, 0}
	VPMAXUB = Inst{"vpmaxub", p66 | x0F | 0xde, rvm, fm, both, 0}
	VPMINSB = Inst{"vpminsb", p66 | x38 | 0x38, rvm, fm, both, 0}
	VPMAXSB = Inst{"vpmaxsb", p66 | x38 | 0x3c, rvm, fm, both, 0}
	VPMINSW = Inst{"vpminsw", p66 | x0F | 0xea, rvm, fm, both, 0}
	VPMAXSW = Inst{"vpmaxsw", p66 | x0F | 0xee, rvm, fm, both, 0}
	VPMINSD = Inst{"vpminsd", p66 | x38 | 0x39, rvm, f4, both, 0}
	VPMAXSD = Inst{"vpmaxsd", p66 | x38 | 0x3d, rvm, f4, both, 0}
	VPMINUD = Inst{"vpminud", p66 | x38 | 0x3b, rvm, f4, both, 0}
	VPMAXUD = Inst{"vpmaxud", p66 | x38 | 0x3f, rvm, f4, both, 0}

	VPCMPEQB = Inst{"vpcmpeqb", p66 | x0F | 0x74, rvm, fm, both, kDst}
	VPCMPEQW = Inst{"vpcmpeqw", p66 | x0F | 0x75, rvm, fm, both, kDst}
	VPCMPEQD = Inst{"vpcmpeqd", p66 | x0F | 0x76, rvm, f4, both, kDst}
	VPCMPGTB = Inst{"vpcmpgtb", p66 | x0F | 0x64, rvm, fm, both, kDst}
	VPCMPGTW = Inst{"vpcmpgtw", p66 | x0F | 0x65, rvm, fm, both, kDst}
	VPCMPGTD = Inst{"vpcmpgtd", p66 | x0F | 0x66, rvm, f4, both, kDst}
	VPCMPD   = Inst{"vpcmpd", p66 | x3A | 0x1f, rvmi, f4, evex, kDst}
	VPCMPUD  = Inst{"vpcmpud", p66 | x3A | 0x1e, rvmi, f4, evex, kDst}
	VPTESTMD = Inst{"vptestmd", p66 | x38 | 0x27, rvm, f4, evex, kDst}

	VPACKSSWB = Inst{"vpacksswb", p66 | x0F | 0x63, rvm, fm, both, 0}
	VPACKUSWB = Inst{"vpackuswb", p66 | x0F | 0x67, rvm, fm, both, 0}
	VPACKSSDW = Inst{"vpackssdw", p66 | x0F | 0x6b, rvm, f4, both, 0}
	VPACKUSDW = Inst{"vpackusdw", p66 | x38 | 0x2b, rvm, f4, both, 0}
	VPMOVSXBW = Inst{"vpmovsxbw", p66 | x38 | 0x20, rm, hm, both, rmHalf}
	VPMOVSXBD = Inst{"vpmovsxbd", p66 | x38 | 0x21, rm, qm, both, rmQuarter}
	VPMOVSXWD = Inst{"vpmovsxwd", p66 | x38 | 0x23, rm, hm, both, rmHalf}
	VPMOVZXBW = Inst{"vpmovzxbw", p66 | x38 | 0x30, rm, hm, both, rmHalf}
	VPMOVZXBD = Inst{"vpmovzxbd", p66 | x38 | 0x31, rm, qm, both, rmQuarter}
	VPMOVZXWD = Inst{"vpmovzxwd", p66 | x38 | 0x33, rm, hm, both, rmHalf}

	// Down-converts: destination first, register or memory.
	VPMOVWB   = Inst{"vpmovwb", pF3 | x38 | 0x30, mr, hm, evex, rmHalf}
	VPMOVDB   = Inst{"vpmovdb", pF3 | x38 | 0x31, mr, qm, evex, rmQuarter}
	VPMOVDW   = Inst{"vpmovdw", pF3 | x38 | 0x33, mr, hm, evex, rmHalf}
	VPMOVSWB  = Inst{"vpmovswb", pF3 | x38 | 0x20, mr, hm, evex, rmHalf}
	VPMOVSDB  = Inst{"vpmovsdb", pF3 | x38 | 0x21, mr, qm, evex, rmQuarter}
	VPMOVSDW  = Inst{"vpmovsdw", pF3 | x38 | 0x23, mr, hm, evex, rmHalf}
	VPMOVUSDB = Inst{"vpmovusdb", pF3 | x38 | 0x11, mr, qm, evex, rmQuarter}
)
