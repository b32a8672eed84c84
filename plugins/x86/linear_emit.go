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

// entry is an entry of an artifact before it is emitted.
type entry struct {
	name     string
	emitter  *Emitter
	generate func() ([]byte, error)
}

// entries are main, tail if main walks several panels at once, and unpack if main reads unpacked panels.
func (t tile) entries() []entry {
	main := newLinear(t)
	out := []entry{{kernel.EntryMain, main.Emitter, main.generate}}
	if t.streams > 1 {
		one := t
		one.streams = 1
		tail := newLinear(one)
		out = append(out, entry{kernel.EntryTail, tail.Emitter, tail.generate})
	}
	if t.panel {
		unpack := newUnpacker(t.isa, t.p)
		out = append(out, entry{kernel.EntryUnpack, unpack.Emitter, unpack.generate})
	}
	return out
}

// assemble emits entries one behind the other, each from the start of a cache line on.
func assemble(entries []entry) (Code, error) {
	out := Code{Entries: map[string]int{}}
	for _, e := range entries {
		code, err := e.generate()
		if err != nil {
			return Code{}, fmt.Errorf("entry %s: %w", e.name, err)
		}
		for len(out.Bytes)%64 != 0 {
			out.Bytes = append(out.Bytes, 0xcc)
		}
		out.Entries[e.name] = len(out.Bytes)
		out.Bytes = append(out.Bytes, code...)
	}
	return out, nil
}

// emitLinear makes the entries of a configuration and says how to drive them.
func emitLinear(isa ISA, p kernel.Problem, c kernel.Config) (Code, error) {
	t := newTile(isa, p, c)
	out, err := assemble(t.entries())
	if err != nil {
		return Code{}, err
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
