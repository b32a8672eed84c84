package amd64

import "fmt"

// Tile is an AMX tile register, 0 to 7.
type Tile uint8

func (a *Asm) vex38(p, reg, vv, x, b, op uint8) {
	a.b(0xc4, (bit(reg, 3)^1)<<7|(x^1)<<6|(b^1)<<5|2, (^vv&15)<<3|p, op)
}

func (a *Asm) tileMem(p, op uint8, t Tile, m Mem, sib bool) {
	if bad := m.check(); bad != "" || t > 7 || m.B || m.VX != 0 || sib && m.Base == RIP {
		a.fail(fmt.Errorf("tile %d, %v: %s", t, m, bad))
		return
	}
	x, b := m.ext()
	a.vex38(p, uint8(t), 0, x, b, op)
	a.modrm(uint8(t), m, 1, sib)
	a.endRIP()
}

func (a *Asm) tdp(p, op uint8, c, x, y Tile) {
	if c > 7 || x > 7 || y > 7 {
		a.fail(fmt.Errorf("tiles %d, %d, %d", c, x, y))
		return
	}
	a.vex38(p, 0, uint8(y), 0, 0, op)
	a.b(0xc0 | uint8(c)<<3 | uint8(x))
}

// Ldtilecfg loads the 64-byte tile configuration at m.
func (a *Asm) Ldtilecfg(m Mem) { a.tileMem(0, 0x49, 0, m, false) }

// Tileloadd loads t: rows at m.Base+m.Disp, stride m.Index*m.Scale bytes.
func (a *Asm) Tileloadd(t Tile, m Mem) { a.tileMem(3, 0x4b, t, m, true) }

// Tileloaddt1 is Tileloadd with a hint that the data is not reused soon.
func (a *Asm) Tileloaddt1(t Tile, m Mem) { a.tileMem(1, 0x4b, t, m, true) }

// Tilestored stores t as Tileloadd loads it.
func (a *Asm) Tilestored(m Mem, t Tile) { a.tileMem(2, 0x4b, t, m, true) }

// Tilezero clears t.
func (a *Asm) Tilezero(t Tile) {
	a.vex38(3, 0, 0, 0, 0, 0x49)
	a.b(0xc0 | uint8(t)&7<<3)
}

// Tilerelease returns the tiles to their initial state.
func (a *Asm) Tilerelease() {
	a.vex38(0, 0, 0, 0, 0, 0x49)
	a.b(0xc0)
}

// Tdpbssd is c += x*y, signed by signed bytes.
func (a *Asm) Tdpbssd(c, x, y Tile) { a.tdp(3, 0x5e, c, x, y) }

// Tdpbsud is c += x*y, signed by unsigned bytes.
func (a *Asm) Tdpbsud(c, x, y Tile) { a.tdp(2, 0x5e, c, x, y) }

// Tdpbusd is c += x*y, unsigned by signed bytes.
func (a *Asm) Tdpbusd(c, x, y Tile) { a.tdp(1, 0x5e, c, x, y) }

// Tdpbuud is c += x*y, unsigned by unsigned bytes.
func (a *Asm) Tdpbuud(c, x, y Tile) { a.tdp(0, 0x5e, c, x, y) }

// Tdpbf16ps is c += x*y, pairs of bf16 into f32.
func (a *Asm) Tdpbf16ps(c, x, y Tile) { a.tdp(2, 0x5c, c, x, y) }
