package jit

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// FaultError is a memory fault in generated code.
type FaultError struct {
	Addr uintptr // the address that faulted
	Err  error   // the runtime's error
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("generated code faulted at address %#x: %v", e.Addr, e.Err)
}

func (e *FaultError) Unwrap() error { return e.Err }

// SafeCall calls f and turns a memory fault in it into a *FaultError; other panics pass. Memory
// that f wrote before the fault stays written. It is for tests and probes: an undefined instruction
// still ends the process, which is why candidates run in processes of their own.
func SafeCall(f kernel.Func, args unsafe.Pointer) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = &FaultError{fault.Addr(), fault}
	}()
	f(args)
	return nil
}
