package bochs

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// Guest physical layout of the system part, identity-mapped; one page each unless said otherwise.
const (
	page      = 4096
	sysBase   = 0x100000
	codeAt    = sysBase              // 32-bit and 64-bit code, two pages
	tablesAt  = sysBase + 2*page     // GDT, IDT, TSS, state
	faultTop  = sysBase + 4*page     // top of the stack for faults
	stackTop  = sysBase + 5*page + 8 // a call's return address fills [stackTop-8, stackTop); below it is no page
	recordsAt = sysBase + 6*page     // call records, then page tables
	userBase  = 0x10_0000_0000       // virtual address of the first user page, above 4 GiB

	gdtAt   = tablesAt
	tssAt   = tablesAt + 0x100
	idtAt   = tablesAt + 0x200
	stateAt = tablesAt + 0x800 // current record, calls left, scratch
	magicAt = tablesAt + 0x900

	recordSize = 64
	rbpMagic   = 0x1122334455667788
)

// Offsets in a call record.
const (
	recFn, recArgs, recStatus, recVector, recError, recRIP, recCR2, recMXCSR = 0, 8, 16, 24, 32, 40, 48, 56
)

// Values of recStatus.
const (
	statusNone  = iota // never reached
	statusDone         // returned
	statusFault        // see recVector
	statusRBP          // returned with another RBP
	statusDF           // returned with the direction flag set
)

const magic = "\x02TWBOCHS-OUTPUT\x03"

func raw(a *amd64.Asm, s string) {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic("bochs: bad literal " + s)
	}
	a.Buf = append(a.Buf, b...)
}

func raw32(a *amd64.Asm, s string, v uint32) {
	raw(a, s)
	a.Buf = binary.LittleEndian.AppendUint32(a.Buf, v)
}

// rom is the boot ROM, 64 KiB ending at 4 GiB. The CPU starts at its last 16 bytes in real mode;
// it loads the GDT, turns protection on and jumps to the code in RAM.
func rom() []byte {
	var a amd64.Asm
	raw(&a, "fa")             // cli
	raw(&a, "662e0f01164000") // lgdt cs:[0x40]
	raw(&a, "0f20c0"+"0c01"+"0f22c0")
	raw32(&a, "66ea", codeAt) // jmp 0x08:codeAt
	raw(&a, "0800")
	b := make([]byte, 64<<10)
	copy(b, a.Buf)
	binary.LittleEndian.PutUint16(b[0x40:], 0x37)
	binary.LittleEndian.PutUint32(b[0x42:], gdtAt)
	copy(b[0xfff0:], "\xe9\x0d\x00") // jmp to the start of the ROM
	return b
}

// enter32 is 32-bit code: it turns on PAE, SSE, XSAVE, long mode and paging (pml4 is the physical
// address of the page tables), and jumps to the 64-bit code behind it. Before that it touches RAM up
// to end in ascending order: Bochs loads the image into one piece of memory, but gives that to the
// blocks of guest RAM in the order in which the guest first uses them.
func enter32(a *amd64.Asm, pml4, end uint32) {
	raw(a, "66b81000"+"8ed8"+"8ec0"+"8ed0")      // flat data segments
	raw32(a, "be", sysBase)                      // mov esi, sysBase
	raw32(a, "8a06"+"81c6", 64<<10)              // mov al, [esi]; add esi, 64 KiB
	raw32(a, "81fe", end)                        // cmp esi, end
	raw(a, "72f0")                               // jb to the mov
	raw32(a, "b8", 1<<5|1<<9|1<<10|1<<18)        // CR4: PAE OSFXSR OSXMMEXCPT OSXSAVE
	raw(a, "0f22e0")                             // mov cr4, eax
	raw32(a, "b8", pml4)                         //
	raw(a, "0f22d8")                             // mov cr3, eax
	raw(a, "b9800000c0"+"0f32")                  // rdmsr EFER
	raw32(a, "0d", 1<<8|1<<11)                   // LME NXE
	raw(a, "0f30")                               // wrmsr
	raw32(a, "b8", 1<<31|1<<16|1<<5|1<<4|1<<1|1) // CR0: PG WP NE ET MP PE
	raw(a, "0f22c0")
	raw32(a, "ea", uint32(codeAt+len(a.Buf)+7)) // jmp 0x18:next
	raw(a, "1800")
}

// stub is the guest's own code. It runs the n call records and then writes to port 0xE9: the magic,
// the records, and (index, page) of every dirty page of the user range, whose ptes page table
// entries lie at pte; an index of all ones ends. RAM ends at end.
func stub(pml4, end uint32, n int, pte, ptes int64) ([]byte, []int) {
	var a amd64.Asm
	enter32(&a, pml4, end)
	raw(&a, "66b82800"+"0f00d8") // ltr 0x28
	a.MovI(amd64.RAX, idtAt+0x200)
	raw(&a, "0f0118")                   // lidt [rax]
	raw(&a, "31c9"+"31d2"+"b8e7000000") // XCR0: x87 SSE AVX opmask ZMM_Hi256 Hi16_ZMM
	raw(&a, "0f01d1")                   // xsetbv

	loop, advance, done := a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Bind(loop)
	runCall(&a, done)
	a.Bind(advance)
	a.MovI(amd64.RAX, stateAt)
	a.Load(amd64.RBX, amd64.M(amd64.RAX, 0))
	a.AddI(amd64.RBX, recordSize)
	a.Store(amd64.M(amd64.RAX, 0), amd64.RBX)
	a.Load(amd64.RCX, amd64.M(amd64.RAX, 8))
	a.Dec(amd64.RCX)
	a.Store(amd64.M(amd64.RAX, 8), amd64.RCX)
	a.Jmp(loop)

	handlers := faultHandlers(&a, advance)
	a.Bind(done)
	emitResults(&a, n, pte, ptes)
	code := a.Finish()
	if a.Err() != nil {
		panic(a.Err())
	}
	return code, handlers
}

// runCall calls the current record with every register but RSP, RBP and RDI full of ones.
func runCall(a *amd64.Asm, done amd64.Label) {
	a.MovI(amd64.RSP, stackTop)
	a.MovI(amd64.RAX, stateAt)
	a.Load(amd64.RBX, amd64.M(amd64.RAX, 0))
	a.Load(amd64.RCX, amd64.M(amd64.RAX, 8))
	a.Test(amd64.RCX, amd64.RCX)
	a.Jcc(amd64.CcE, done)
	a.Load(amd64.RDI, amd64.M(amd64.RBX, recArgs))
	a.Load(amd64.RAX, amd64.M(amd64.RBX, recFn))
	for v := 0; v < 32; v++ {
		a.Op(amd64.VPTERNLOGD, amd64.Z(v), amd64.Z(v), amd64.Z(v), 0xff)
	}
	a.MovI(amd64.RBX, -1)
	for k := amd64.KReg(0); k < 8; k++ {
		a.KmovQ(k, amd64.RBX)
	}
	for r := amd64.RAX + 1; r <= amd64.R15; r++ {
		if r != amd64.RSP && r != amd64.RDI {
			a.MovI(r, -1)
		}
	}
	a.MovI(amd64.RBP, rbpMagic)
	raw(a, "fc"+"ffd0") // cld; call rax
	a.MovI(amd64.RAX, stateAt)
	a.Load(amd64.RBX, amd64.M(amd64.RAX, 0))
	raw(a, "0fae5b38") // stmxcsr [rbx+recMXCSR]
	raw(a, "9c"+"59")  // pushfq; pop rcx (in the page of the return address)
	raw(a, "fc")       // cld
	a.MovI(amd64.RDX, statusDone)
	a.MovI(amd64.RSI, statusDF)
	a.AndI(amd64.RCX, 1<<10)
	a.Cmov(amd64.CcNE, amd64.RDX, amd64.RSI)
	a.MovI(amd64.RSI, statusRBP)
	a.MovI(amd64.RCX, rbpMagic)
	a.Cmp(amd64.RCX, amd64.RBP)
	a.Cmov(amd64.CcNE, amd64.RDX, amd64.RSI)
	a.Store(amd64.M(amd64.RBX, recStatus), amd64.RDX)
}

// faultHandlers emits the handlers of vectors 0 to 31, which note the fault in the current record
// and go on with the next one. It returns their offsets.
func faultHandlers(a *amd64.Asm, advance amd64.Label) []int {
	common := a.NewLabel()
	var at []int
	for v := 0; v < 32; v++ {
		at = append(at, len(a.Buf))
		switch v {
		case 8, 10, 11, 12, 13, 14, 17, 21, 29, 30: // the CPU pushes an error code
		default:
			raw(a, "6a00")
		}
		raw(a, "6a"+hex.EncodeToString([]byte{byte(v)})) // push vector
		a.Jmp(common)
	}
	a.Bind(common)
	a.MovI(amd64.RAX, stateAt)
	a.Load(amd64.RBX, amd64.M(amd64.RAX, 0))
	for i, to := range []int{recVector, recError, recRIP} {
		a.Load(amd64.RCX, amd64.M(amd64.RSP, 8*i))
		a.Store(amd64.M(amd64.RBX, to), amd64.RCX)
	}
	raw(a, "0f20d1") // mov rcx, cr2
	a.Store(amd64.M(amd64.RBX, recCR2), amd64.RCX)
	a.MovI(amd64.RCX, statusFault)
	a.Store(amd64.M(amd64.RBX, recStatus), amd64.RCX)
	a.MovI(amd64.RCX, 0x1f80)
	a.Store(amd64.M(amd64.RAX, 16), amd64.RCX)
	raw(a, "0fae5010") // ldmxcsr [rax+16]
	raw(a, "fc")
	a.Jmp(advance)
	return at
}

// emitResults writes the output and halts.
func emitResults(a *amd64.Asm, n int, pte, ptes int64) {
	out := func(from, bytes int64) {
		a.MovI(amd64.RSI, from)
		a.MovI(amd64.RCX, bytes)
		raw(a, "f36e") // rep outsb
	}
	a.MovI(amd64.RDX, 0xe9)
	out(magicAt, int64(len(magic)))
	out(recordsAt, int64(n)*recordSize)
	a.MovI(amd64.RBX, 0)
	next, clean, end := a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Bind(next)
	a.CmpI(amd64.RBX, int(ptes))
	a.Jcc(amd64.CcGE, end)
	a.MovI(amd64.RAX, pte)
	a.Load(amd64.RAX, amd64.MX(amd64.RAX, amd64.RBX, 8, 0))
	a.AndI(amd64.RAX, 1<<6) // dirty
	a.Jcc(amd64.CcE, clean)
	a.MovI(amd64.RAX, stateAt)
	a.Store(amd64.M(amd64.RAX, 16), amd64.RBX)
	out(stateAt+16, 8)
	a.Mov(amd64.RSI, amd64.RBX)
	a.Shl(amd64.RSI, 12)
	a.MovI(amd64.RAX, userBase)
	a.Add(amd64.RSI, amd64.RAX)
	a.MovI(amd64.RCX, page)
	raw(a, "f36e")
	a.Bind(clean)
	a.Inc(amd64.RBX)
	a.Jmp(next)
	a.Bind(end)
	a.MovI(amd64.RBX, -1)
	a.MovI(amd64.RAX, stateAt)
	a.Store(amd64.M(amd64.RAX, 16), amd64.RBX)
	out(stateAt+16, 8)
	raw(a, "f4"+"ebfd") // hlt
}
