package bochs

import (
	"encoding/binary"
	"fmt"
)

// Region is a piece of guest memory. Its end, and as far as its size allows its start, touches a
// page that is not mapped, so that an access outside faults.
type Region struct {
	Addr  uint64 // guest address of Data[0]
	Data  []byte // contents; Run replaces them by what the guest left
	first int    // index of its first user page
	pages int
	prot  prot
}

type prot uint8

const (
	readWrite prot = iota
	readOnly
	execute
)

// fill is what surrounds Data within the region's pages.
const fill = 0xa5

// image lays regions out in guest memory.
type image struct {
	regions []*Region
	next    int // next free user page
}

// add places data so that it ends at the end of a page, if align allows.
func (im *image) add(data []byte, align int, p prot) (*Region, error) {
	if align < 1 || align > page || align&(align-1) != 0 {
		return nil, fmt.Errorf("bochs: alignment %d", align)
	}
	if im.next == 0 {
		im.next = 1
	}
	pages := max((len(data)+page-1)/page, 1)
	start := (pages*page - len(data)) &^ (align - 1)
	if p == execute {
		start = 0
	}
	r := &Region{Addr: userBase + uint64(im.next*page+start), Data: data, first: im.next, pages: pages, prot: p}
	im.next += pages + 1
	if im.next > 1<<18 {
		return nil, fmt.Errorf("bochs: more than 1 GiB of regions")
	}
	im.regions = append(im.regions, r)
	return r, nil
}

// call is one call record.
type call struct{ fn, args uint64 }

// layout holds the physical addresses of the variable parts of the system area.
type layout struct {
	tables   int // PML4, PDPT, page directories of system and user, two page tables of the system
	userPT   int // page tables of the user range, contiguous
	nUserPT  int
	userPhys int // pages of the regions
}

func (im *image) layout(calls int) layout {
	up := func(n int) int { return (n + page - 1) &^ (page - 1) }
	var l layout
	l.tables = up(recordsAt + calls*recordSize)
	l.userPT = l.tables + 6*page
	l.nUserPT = im.next/512 + 1
	l.userPhys = l.userPT + l.nUserPT*page
	return l
}

// Page table bits.
const (
	pPresent, pWrite, pNX = 1, 2, 1 << 63
)

// build makes the RAM image that starts at sysBase.
func (im *image) build(calls []call) ([]byte, error) {
	l := im.layout(len(calls))
	if l.userPhys > 4<<20 {
		return nil, fmt.Errorf("bochs: %d calls and %d pages need more than 3 MiB of tables", len(calls), im.next)
	}
	pages := 0
	for _, r := range im.regions {
		pages += r.pages
	}
	ram := make([]byte, l.userPhys-sysBase+pages*page)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(ram[at-sysBase:], v) }

	code, handlers := stub(uint32(l.tables), uint32(l.userPhys+pages*page), len(calls), int64(l.userPT), int64(l.nUserPT*512))
	if len(code) > 2*page {
		return nil, fmt.Errorf("bochs: stub of %d bytes", len(code))
	}
	copy(ram, code)
	descriptors(put, handlers)
	copy(ram[magicAt-sysBase:], magic)
	put(stateAt, recordsAt)
	put(stateAt+8, uint64(len(calls)))
	for i, c := range calls {
		put(recordsAt+i*recordSize+recFn, c.fn)
		put(recordsAt+i*recordSize+recArgs, c.args)
	}
	systemTables(put, l)
	im.userTables(put, ram, l)
	return ram, nil
}

// descriptors fills GDT, TSS and IDT. All faults use stack 1 of the TSS.
func descriptors(put func(int, uint64), handlers []int) {
	put(gdtAt+0x08, 0x00cf9a000000ffff) // 32-bit code
	put(gdtAt+0x10, 0x00cf92000000ffff) // data
	put(gdtAt+0x18, 0x00af9a000000ffff) // 64-bit code
	put(gdtAt+0x28, 0x67|(tssAt&0xffffff)<<16|0x89<<40|tssAt>>24<<56)
	put(gdtAt+0x30, tssAt>>32)
	put(tssAt+0x24, faultTop) // IST1
	for v, off := range handlers {
		h := uint64(codeAt + off)
		put(idtAt+16*v, h&0xffff|0x18<<16|1<<32|0x8e<<40|h>>16&0xffff<<48)
	}
	put(idtAt+0x200, 32*16-1|uint64(idtAt)<<16) // for lidt
	put(idtAt+0x208, uint64(idtAt)>>48)
}

// systemTables maps the system area onto itself, less the guard page of the stack.
func systemTables(put func(int, uint64), l layout) {
	t := func(i int) int { return l.tables + i*page }
	entry := func(at int) uint64 { return uint64(at) | pPresent | pWrite }
	put(t(0), entry(t(1)))
	put(t(1), entry(t(2)))
	put(t(1)+8*(userBase>>30), entry(t(3)))
	put(t(2), entry(t(4)))
	put(t(2)+8, entry(t(5)))
	for at := sysBase; at < l.userPhys; at += page {
		if at != faultTop {
			put(t(4)+8*(at/page), entry(at))
		}
	}
	for i := range l.nUserPT {
		put(t(3)+8*i, entry(l.userPT+i*page))
	}
}

// userTables maps and fills the regions.
func (im *image) userTables(put func(int, uint64), ram []byte, l layout) {
	phys := l.userPhys
	for _, r := range im.regions {
		bits := uint64(pPresent)
		switch r.prot {
		case readWrite:
			bits |= pWrite | pNX
		case readOnly:
			bits |= pNX
		}
		mem := ram[phys-sysBase:][:r.pages*page]
		for i := range mem {
			mem[i] = fill
		}
		copy(mem[r.Addr-userBase-uint64(r.first*page):], r.Data)
		for i := range r.pages {
			put(l.userPT+8*(r.first+i), uint64(phys)|bits)
			phys += page
		}
	}
}
