package pool

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/kernel/jit"
	"golang.org/x/sys/unix"
)

const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
	pollsPerClock    = 64 // polls between two looks at the clock
)

// futexWait sleeps while *addr is v. It may return early.
func futexWait(addr *atomic.Uint32, v uint32) {
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWaitPrivate, uintptr(v), 0, 0, 0)
}

func futexWake(addr *atomic.Uint32) {
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWakePrivate, 1<<30, 0, 0, 0)
}

// poll loads *addr until ok holds of its value or for about d.
func poll(addr *atomic.Uint32, d time.Duration, ok func(uint32) bool) (uint32, bool) {
	if v := addr.Load(); ok(v) {
		return v, true
	}
	if d == 0 {
		return 0, false
	}
	for start := time.Now(); ; {
		for range pollsPerClock {
			if v := addr.Load(); ok(v) {
				return v, true
			}
			jit.Pause(1)
		}
		if time.Since(start) > d {
			return 0, false
		}
	}
}
