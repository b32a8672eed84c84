package jit

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// FaultError is a fault in generated code: of memory, or of a division.
type FaultError struct {
	Addr uintptr // the address that faulted; 0 for the first page and for a division
	Err  error   // the runtime's error
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("generated code faulted at address %#x: %v", e.Addr, e.Err)
}

func (e *FaultError) Unwrap() error { return e.Err }

// SafeCall calls f and turns a fault in it into a *FaultError; panics that are no errors of the
// runtime pass. Memory that f wrote before the fault stays written. It is for tests and probes: an
// undefined instruction still ends the process, which is why candidates run in processes of their own.
func SafeCall(f kernel.Func, args unsafe.Pointer) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(runtime.Error)
		if !ok {
			panic(r)
		}
		e := &FaultError{Err: fault}
		// The runtime reports an access to the first page as a nil pointer, without its address.
		if at, ok := fault.(interface{ Addr() uintptr }); ok {
			e.Addr = at.Addr()
		}
		err = e
	}()
	f(args)
	return nil
}
