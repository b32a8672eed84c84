package host

import "github.com/klauspost/cpuid/v2"

// isaAMD64 are the features that backends may ask for. Each instruction works on registers, AMX on
// the tile configuration at RDI+2048 (tdpbssd and tdpbf16ps between ldtilecfg and tilerelease).
var isaAMD64 = []feature{
	{"ssse3", cpuid.SSSE3, []byte{0x66, 0x0f, 0x38, 0x00, 0xc1}},                  // pshufb xmm0, xmm1
	{"sse4_1", cpuid.SSE4, []byte{0x66, 0x0f, 0x38, 0x40, 0xc1}},                  // pmulld xmm0, xmm1
	{"sse4_2", cpuid.SSE42, []byte{0x66, 0x0f, 0x38, 0x37, 0xc1}},                 // pcmpgtq xmm0, xmm1
	{"popcnt", cpuid.POPCNT, []byte{0xf3, 0x0f, 0xb8, 0xc0}},                      // popcnt eax, eax
	{"avx", cpuid.AVX, []byte{0xc5, 0xf4, 0x58, 0xc2}},                            // vaddps ymm0, ymm1, ymm2
	{"f16c", cpuid.F16C, []byte{0xc4, 0xe2, 0x7d, 0x13, 0xc1}},                    // vcvtph2ps ymm0, xmm1
	{"fma", cpuid.FMA3, []byte{0xc4, 0xe2, 0x75, 0xb8, 0xc2}},                     // vfmadd231ps ymm0, ymm1, ymm2
	{"bmi1", cpuid.BMI1, []byte{0xc4, 0xe2, 0x78, 0xf2, 0xc1}},                    // andn eax, eax, ecx
	{"bmi2", cpuid.BMI2, []byte{0xc4, 0xe2, 0x7b, 0xf5, 0xc1}},                    // pdep eax, eax, ecx
	{"avx2", cpuid.AVX2, []byte{0xc5, 0xf5, 0xfe, 0xc2}},                          // vpaddd ymm0, ymm1, ymm2
	{"avx_vnni", cpuid.AVXVNNI, []byte{0xc4, 0xe2, 0x75, 0x50, 0xc2}},             // {vex} vpdpbusd ymm0, ymm1, ymm2
	{"avx512f", cpuid.AVX512F, []byte{0x62, 0xf1, 0x75, 0x48, 0xfe, 0xc2}},        // vpaddd zmm0, zmm1, zmm2
	{"avx512bw", cpuid.AVX512BW, []byte{0x62, 0xf1, 0x75, 0x48, 0xfd, 0xc2}},      // vpaddw zmm0, zmm1, zmm2
	{"avx512cd", cpuid.AVX512CD, []byte{0x62, 0xf2, 0x7d, 0x48, 0xc4, 0xc1}},      // vpconflictd zmm0, zmm1
	{"avx512dq", cpuid.AVX512DQ, []byte{0x62, 0xf2, 0xf5, 0x48, 0x40, 0xc2}},      // vpmullq zmm0, zmm1, zmm2
	{"avx512vl", cpuid.AVX512VL, []byte{0x62, 0xf1, 0x75, 0x28, 0xfe, 0xc2}},      // {evex} vpaddd ymm0, ymm1, ymm2
	{"avx512vbmi", cpuid.AVX512VBMI, []byte{0x62, 0xf2, 0x75, 0x48, 0x8d, 0xc2}},  // vpermb zmm0, zmm1, zmm2
	{"avx512_vnni", cpuid.AVX512VNNI, []byte{0x62, 0xf2, 0x75, 0x48, 0x50, 0xc2}}, // vpdpbusd zmm0, zmm1, zmm2
	{"avx512_bf16", cpuid.AVX512BF16, []byte{0x62, 0xf2, 0x76, 0x48, 0x52, 0xc2}}, // vdpbf16ps zmm0, zmm1, zmm2
	{"avx512_fp16", cpuid.AVX512FP16, []byte{0x62, 0xf5, 0x74, 0x48, 0x58, 0xc2}}, // vaddph zmm0, zmm1, zmm2
	{"gfni", cpuid.GFNI, []byte{0x66, 0x0f, 0x38, 0xcf, 0xc1}},                    // gf2p8mulb xmm0, xmm1
	{"amx_tile", cpuid.AMXTILE, tiles()},                                          // ldtilecfg, tilerelease
	{"amx_int8", cpuid.AMXINT8, tiles(0xc4, 0xe2, 0x6b, 0x5e, 0xc1)},              // tdpbssd tmm0, tmm1, tmm2
	{"amx_bf16", cpuid.AMXBF16, tiles(0xc4, 0xe2, 0x6a, 0x5c, 0xc1)},              // tdpbf16ps tmm0, tmm1, tmm2
}

// tiles brackets an AMX instruction: ldtilecfg [rdi+2048]; tilezero 0, 1, 2; it; tilerelease.
func tiles(instruction ...byte) []byte {
	c := []byte{0xc4, 0xe2, 0x78, 0x49, 0x87, 0x00, 0x08, 0x00, 0x00,
		0xc4, 0xe2, 0x7b, 0x49, 0xc0, 0xc4, 0xe2, 0x7b, 0x49, 0xc8, 0xc4, 0xe2, 0x7b, 0x49, 0xd0}
	c = append(c, instruction...)
	return append(c, 0xc4, 0xe2, 0x78, 0x49, 0xc0)
}
