package amd64

import "fmt"

// kmov emits a kmov between a mask and a general register: pp is 0 for the word form, 3 for the
// dword and quadword forms, w is 1 for the quadword.
func (a *Asm) kmov(op, pp, w uint8, reg, rm uint8) {
	r, b := bit(reg, 3), bit(rm, 3)
	if w == 0 && b == 0 {
		a.b(0xc5, (r^1)<<7|0x78|pp)
	} else {
		a.b(0xc4, (r^1)<<7|1<<6|(b^1)<<5|1, w<<7|0x78|pp)
	}
	a.b(op, 0xc0|reg&7<<3|rm&7)
}

func (a *Asm) kreg(k KReg, r Reg) bool {
	if k > 7 || r > R15 {
		a.fail(fmt.Errorf("kmov of k%d and register %d", k, r))
		return false
	}
	return true
}

// KmovW is k = the low 16 bits of r (AVX512F).
func (a *Asm) KmovW(k KReg, r Reg) {
	if a.kreg(k, r) {
		a.kmov(0x92, 0, 0, uint8(k), uint8(r))
	}
}

// KmovD is k = the low 32 bits of r (AVX512BW).
func (a *Asm) KmovD(k KReg, r Reg) {
	if a.kreg(k, r) {
		a.kmov(0x92, 3, 0, uint8(k), uint8(r))
	}
}

// KmovQ is k = r (AVX512BW).
func (a *Asm) KmovQ(k KReg, r Reg) {
	if a.kreg(k, r) {
		a.kmov(0x92, 3, 1, uint8(k), uint8(r))
	}
}

// KmovWR is r = the low 16 bits of k, zero-extended.
func (a *Asm) KmovWR(r Reg, k KReg) {
	if a.kreg(k, r) {
		a.kmov(0x93, 0, 0, uint8(r), uint8(k))
	}
}

// KmovDR is r = the low 32 bits of k, zero-extended.
func (a *Asm) KmovDR(r Reg, k KReg) {
	if a.kreg(k, r) {
		a.kmov(0x93, 3, 0, uint8(r), uint8(k))
	}
}

// KmovQR is r = k.
func (a *Asm) KmovQR(r Reg, k KReg) {
	if a.kreg(k, r) {
		a.kmov(0x93, 3, 1, uint8(r), uint8(k))
	}
}

// KortestW sets ZF if the low 16 bits of x|y are all 0, CF if they are all 1.
func (a *Asm) KortestW(x, y KReg) { a.b(0xc5, 0xf8, 0x98, 0xc0|uint8(x)&7<<3|uint8(y)&7) }
