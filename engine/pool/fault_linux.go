package pool

import (
	"fmt"
	"runtime/debug"
)

// call runs one worker's share and keeps its error.
func (p *Pool) call(w int, fn func(int)) {
	defer func() {
		if r := recover(); r != nil {
			p.slots[w].err = fault(w, r)
		}
	}()
	fn(w)
}

func (p *Pool) firstError(n int) error {
	var first error
	for w := range n {
		if err := p.slots[w].err; err != nil {
			p.slots[w].err = nil
			if first == nil {
				first = err
			}
		}
	}
	return first
}

func guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault(0, r)
		}
	}()
	return fn()
}

// fault turns what a panic carried into an error that names the worker and where it stood.
func fault(w int, r any) error {
	err := fmt.Errorf("worker %d: %v", w, r)
	if e, ok := r.(interface{ Addr() uintptr }); ok {
		err = fmt.Errorf("worker %d: memory fault at %#x", w, e.Addr())
	}
	return &Fault{Err: err, Stack: string(debug.Stack())}
}

// Fault is the error that a panic or a memory fault in a worker becomes.
type Fault struct {
	Err   error
	Stack string
}

func (f *Fault) Error() string { return "pool: " + f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }
