package arm64

func (a *Asm) vvv(op uint32, d, n, m V) { a.w(op | a.v(m)<<16 | a.v(n)<<5 | a.v(d)) }

// elem selects 32-bit element i of m.
func (a *Asm) elem(op uint32, d, n, m V, i uint32) {
	i = a.field(i, 1, 3)
	a.w(op | i&1<<21 | a.v(m)<<16 | i>>1<<11 | a.v(n)<<5 | a.v(d))
}

// And is d = n & m.
func (a *Asm) And(d, n, m V) { a.vvv(0x4e201c00, d, n, m) }

// Eor is d = n ^ m.
func (a *Asm) Eor(d, n, m V) { a.vvv(0x6e201c00, d, n, m) }

// Ushr8 shifts bytes right by s, 1 to 8.
func (a *Asm) Ushr8(d, n V, s uint32) {
	if s < 1 || s > 8 {
		a.fail("shift of bytes by %d", s)
		return
	}
	a.w(0x6f000400 | (16-s)<<16 | a.v(n)<<5 | a.v(d))
}

// Movi fills the bytes of d.
func (a *Asm) Movi(d V, imm uint8) {
	a.w(0x4f00e400 | uint32(imm)>>5<<16 | uint32(imm)&31<<5 | a.v(d))
}

// Tbl looks up bytes m of table n.
func (a *Asm) Tbl(d, n, m V) { a.vvv(0x4e000000, d, n, m) }

// Sdot adds to each dword of d the dot product of four signed bytes of n and m.
func (a *Asm) Sdot(d, n, m V) { a.vvv(0x4e809400, d, n, m) }

// SdotE is Sdot with the four bytes of element i of m for every dword.
func (a *Asm) SdotE(d, n, m V, i uint32) { a.elem(0x4f80e000, d, n, m, i) }

// Smmla adds to the 2x2 dwords of d the product of 2x8 signed bytes n and the transpose of m.
func (a *Asm) Smmla(d, n, m V) { a.vvv(0x4e80a400, d, n, m) }

// Fmul is d = n * m, f32.
func (a *Asm) Fmul(d, n, m V) { a.vvv(0x6e20dc00, d, n, m) }

// FmulE is d = n * m[i], f32.
func (a *Asm) FmulE(d, n, m V, i uint32) { a.elem(0x4f809000, d, n, m, i) }

// Fmla is d += n * m, f32.
func (a *Asm) Fmla(d, n, m V) { a.vvv(0x4e20cc00, d, n, m) }

// FmlaE is d += n * m[i], f32.
func (a *Asm) FmlaE(d, n, m V, i uint32) { a.elem(0x4f801000, d, n, m, i) }

// Scvtf converts int32 to f32.
func (a *Asm) Scvtf(d, n V) { a.vvv(0x4e21d800, d, n, 0) }

// Fcvtl converts the low four f16 to f32.
func (a *Asm) Fcvtl(d, n V) { a.vvv(0x0e217800, d, n, 0) }

// Fcvtl2 converts the high four f16 to f32.
func (a *Asm) Fcvtl2(d, n V) { a.vvv(0x4e217800, d, n, 0) }

// Ld1r loads a dword at n into every dword of d.
func (a *Asm) Ld1r(d V, n X) { a.w(0x4d40c800 | a.x(n)<<5 | a.v(d)) }

// LdrQ loads 16 bytes at n+off.
func (a *Asm) LdrQ(d V, n X, off uint32) {
	a.w(0x3dc00000 | a.field(off, 16, 4095)<<10 | a.x(n)<<5 | a.v(d))
}

// StrQ stores 16 bytes at n+off.
func (a *Asm) StrQ(d V, n X, off uint32) {
	a.w(0x3d800000 | a.field(off, 16, 4095)<<10 | a.x(n)<<5 | a.v(d))
}

// Ldr loads 8 bytes at n+off.
func (a *Asm) Ldr(d, n X, off uint32) {
	a.w(0xf9400000 | a.field(off, 8, 4095)<<10 | a.x(n)<<5 | a.x(d))
}

// Str stores 8 bytes at n+off.
func (a *Asm) Str(d, n X, off uint32) {
	a.w(0xf9000000 | a.field(off, 8, 4095)<<10 | a.x(n)<<5 | a.x(d))
}

// Prfm prefetches the line at n+off into L1.
func (a *Asm) Prfm(n X, off uint32) { a.w(0xf9800000 | a.field(off, 8, 4095)<<10 | a.x(n)<<5) }

// AddI is d = n + v.
func (a *Asm) AddI(d, n X, v uint32) {
	a.w(0x91000000 | a.field(v, 1, 4095)<<10 | a.x(n)<<5 | a.x(d))
}

// SubI is d = n - v.
func (a *Asm) SubI(d, n X, v uint32) {
	a.w(0xd1000000 | a.field(v, 1, 4095)<<10 | a.x(n)<<5 | a.x(d))
}

// Movz is d = v.
func (a *Asm) Movz(d X, v uint16) { a.w(0xd2800000 | uint32(v)<<5 | a.x(d)) }

// Ret returns to the caller.
func (a *Asm) Ret() { a.w(0xd65f03c0) }
