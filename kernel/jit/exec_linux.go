package jit

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappers are the ways to executable memory, in order. Anonymous memory comes first: it works on
// almost every system, needs no file descriptor, is not counted as shared memory, and does not look
// like file-less execution to a security monitor or trip vm.memfd_noexec. Where it is refused, the
// refusal is of *making pages executable* (mprotect under MemoryDenyWriteExecute, PR_SET_MDWE or
// SELinux execmem); mapping a file that is already final remains allowed under the first two, and a
// sealed memfd is such a file. A refusal costs microseconds, once per artifact.
var mappers = []mapper{{"anonymous memory", mapAnon}, {"sealed memfd", mapMemfd}}

// mapAnon writes code into fresh pages and then turns them from read-write to read-execute.
func mapAnon(code []byte) (unsafe.Pointer, func() error, error) {
	n := roundUp(len(code), pageSize)
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("mmap: %w", err)
	}
	free := func() error { return unix.MunmapPtr(p, uintptr(n)) }
	m := unsafe.Slice((*byte)(p), n)
	copy(m, code)
	trapFill(m[len(code):])
	flush(m)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("mprotect: %w", err), free())
	}
	return p, free, nil
}

// mapMemfd writes code to a memory file, seals it against any change and maps it read-execute.
func mapMemfd(code []byte) (unsafe.Pointer, func() error, error) {
	n := roundUp(len(code), pageSize)
	fd, err := memfd()
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	m := make([]byte, n)
	copy(m, code)
	trapFill(m[len(code):])
	for len(m) > 0 {
		w, err := unix.Write(fd, m)
		if err != nil && err != unix.EINTR {
			return nil, nil, fmt.Errorf("write to memfd: %w", err)
		}
		m = m[max(w, 0):]
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, nil, fmt.Errorf("sealing memfd: %w", err)
	}
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("mmap of memfd: %w", err)
	}
	flush(unsafe.Slice((*byte)(p), n))
	return p, func() error { return unix.MunmapPtr(p, uintptr(n)) }, nil
}

// memfd creates an executable memory file. Kernels before 6.3 do not know MFD_EXEC.
func memfd() (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("tilewright-code", flags|unix.MFD_EXEC)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("tilewright-code", flags)
	}
	return fd, err
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
