package host

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel/jit"
)

// probe executes the named features in order and prints each name that came back.
func probe(names []string, w io.Writer) {
	runtime.LockOSThread() // the permission to use tiles is the thread's
	operand, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return
	}
	copy(operand[2048:], tileConfig[:])
	for _, name := range names {
		i := slices.IndexFunc(isaAMD64, func(f feature) bool { return f.name == name })
		if i < 0 {
			return
		}
		if strings.HasPrefix(name, "amx") && !permitTiles() || !run(isaAMD64[i].code, operand) {
			return
		}
		fmt.Fprintln(w, name)
	}
}

// tileConfig is palette 1 with tiles 0 to 2 of one row of four bytes.
var tileConfig = func() (c [64]byte) {
	c[0] = 1
	for t := range 3 {
		c[16+2*t], c[48+t] = 4, 1
	}
	return c
}()

// run executes one instruction on this thread. It comes back false if executable memory is refused,
// and does not come back if the CPU refuses the instruction.
func run(code, operand []byte) bool {
	c, err := jit.Map(append(append([]byte(nil), code...), 0xc3))
	if err != nil {
		return false
	}
	defer c.Free()
	c.Call(unsafe.Pointer(&operand[0]))
	return true
}

// permitTiles asks the kernel for the use of AMX tile data (XTILEDATA, component 18).
func permitTiles() bool {
	const archReqXCompPerm, tileData = 0x1023, 18
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, archReqXCompPerm, tileData, 0)
	return errno == 0
}
