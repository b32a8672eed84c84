package jit

// trapFill fills b with breakpoints.
func trapFill(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}

// flush has nothing to do: x86 keeps the instruction cache coherent.
func flush([]byte) {}
