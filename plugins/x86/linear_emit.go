package x86

import (
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

func init() {
	generators[kernel.OpLinear] = generator{space: linearSpace, emit: emitLinear}
}

// checkLinear reports a problem out of reach.
func checkLinear(p kernel.Problem) error {
	no := func(why string, v ...any) error {
		return fmt.Errorf("%w: %s: %s", kernel.ErrUnsupported, p, fmt.Sprintf(why, v...))
	}
	if err := checkFormat(p.Format); err != nil {
		return err
	}
	f := p.Format
	switch {
	case p.M < 1 || p.N < 1:
		return no("M and N must be positive")
	case p.Arith != kernel.A8 && p.Arith != kernel.A16 && p.Arith != kernel.F32:
		return no("arithmetic %q", p.Arith)
	case f.IsFloat() && p.Arith != kernel.F32:
		return no("float weights need arithmetic f32")
	case p.Layout.Lanes != 16 || p.Layout.Cols != 1 && p.Layout.Cols != 2 && p.Layout.Cols != 4:
		return no("layout %s, want 16 lanes in 1, 2 or 4 columns", p.Layout)
	case !f.IsFloat() && p.Act.Group != 0 && p.Act.Group != f.Group:
		return no("activation group %d, weight group %d", p.Act.Group, f.Group)
	case p.K < 1 || p.K%f.Unit() != 0:
		return no("K must be a multiple of %d", f.Unit())
	case p.Layout.PanelBytes(kernel.FormatF32, p.K) > 1<<27:
		return no("K = %d is out of reach of 32-bit displacements", p.K)
	}
	return nil
}

// emitLinear makes the entries main, tail if main walks several panels at once, and unpack if main
// reads unpacked panels, and says how to drive them.
func emitLinear(isa ISA, p kernel.Problem, c kernel.Config) (Code, error) {
	t := newTile(isa, p, c)
	var out Code
	add := func(entry string, code []byte, err error) error {
		if err != nil {
			return fmt.Errorf("entry %s: %w", entry, err)
		}
		for len(out.Bytes)%64 != 0 {
			out.Bytes = append(out.Bytes, 0xcc)
		}
		if out.Entries == nil {
			out.Entries = map[string]int{}
		}
		out.Entries[entry] = len(out.Bytes)
		out.Bytes = append(out.Bytes, code...)
		return nil
	}
	code, err := newLinear(t).generate()
	if err := add(kernel.EntryMain, code, err); err != nil {
		return Code{}, err
	}
	if t.streams > 1 {
		one := t
		one.streams = 1
		code, err := newLinear(one).generate()
		if err := add(kernel.EntryTail, code, err); err != nil {
			return Code{}, err
		}
	}
	if t.panel {
		code, err := newUnpacker(isa, p).generate()
		if err := add(kernel.EntryUnpack, code, err); err != nil {
			return Code{}, err
		}
	}
	out.Exec = t.exec(c)
	return out, nil
}

// exec turns sizes of blocks in bytes to panels and rows.
func (t tile) exec(c kernel.Config) kernel.Exec {
	x := kernel.Exec{MR: t.mr, Streams: t.streams, Panel: t.panel, MC: int(c[parMC]) * t.mr}
	if t.panel {
		x.PanelStride = t.panelBytes()
	}
	if t.imem {
		x.ScratchBytes = t.mr * t.width() * t.isa.Bytes()
	}
	if kb := int(c[parBlock]); kb > 0 {
		x.NC = max(1, kb<<10/t.panelBytes()/t.streams) * t.streams
	}
	x.Chunk = int(c[parChunk]) * max(x.NC, t.streams)
	return x
}
