#include "textflag.h"

// func ctrEL0() uint64
TEXT ·ctrEL0(SB), NOSPLIT, $0-8
	WORD $0xd53b0020 // MRS X0, CTR_EL0
	MOVD R0, ret+0(FP)
	RET

// func cleanInvalidate(start, end, dline, iline uintptr)
// Arm ARM B2.4.4: clean data lines to the point of unification, then invalidate instruction lines.
TEXT ·cleanInvalidate(SB), NOSPLIT, $0-32
	MOVD start+0(FP), R1
	MOVD end+8(FP), R2
	MOVD dline+16(FP), R3
	MOVD iline+24(FP), R4
	SUB  $1, R3, R5
	BIC  R5, R1, R0
dc:
	WORD $0xd50b7b20 // DC CVAU, X0
	ADD  R3, R0
	CMP  R2, R0
	BLO  dc
	WORD $0xd5033b9f // DSB ISH
	SUB  $1, R4, R5
	BIC  R5, R1, R0
ic:
	WORD $0xd50b7520 // IC IVAU, X0
	ADD  R4, R0
	CMP  R2, R0
	BLO  ic
	WORD $0xd5033b9f // DSB ISH
	WORD $0xd5033fdf // ISB
	RET
