package bochs

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"
)

// Batch collects calls of generated code for one start of the emulator, which costs about as much
// as thousands of kernel calls. Not for concurrent use.
type Batch struct {
	im      image
	calls   []call
	results []*Result
	bufs    []buffer
	codes   map[string]*Region
	ran     bool
}

// buffer is a Go slice that the guest sees.
type buffer struct {
	ptr    unsafe.Pointer
	size   int
	keep   any // the slice or pointer
	region *Region
}

// Result is the outcome of one call, valid after Run.
type Result struct {
	Fault error  // nil, a *Fault, or a breach of the calling convention
	MXCSR uint32 // after the call; 0 if it did not return
	code  *Region
}

// Fault is a CPU exception in generated code.
type Fault struct {
	Vector uint8
	Code   uint64 // error code of the CPU
	Offset int64  // of the instruction in the code
	Addr   uint64 // page faults: the address
	Where  string // page faults: the address in terms of the buffers
}

var vectorNames = map[uint8]string{0: "division error", 1: "debug trap", 3: "breakpoint", 6: "undefined instruction",
	7: "no FPU", 8: "double fault", 12: "stack fault", 13: "general protection", 14: "page fault", 16: "x87 error",
	17: "alignment", 19: "SIMD exception"}

func (f *Fault) Error() string {
	s := fmt.Sprintf("%s (vector %d, code %#x) at code offset %#x", vectorNames[f.Vector], f.Vector, f.Code, f.Offset)
	if f.Vector == 14 {
		verb := "reading"
		if f.Code&2 != 0 {
			verb = "writing"
		}
		s += fmt.Sprintf(", %s %#x (%s)", verb, f.Addr, f.Where)
	}
	return s
}

// Call adds a call of code at offset entry. args points to an argument block: a struct of
// unsafe.Pointer and int64 fields, which is copied. Every non-nil pointer in it must point into one
// of bufs or of a buffer of an earlier call. A buffer is a slice of numbers, or a pointer to one; unless wrapped by
// Align, its end touches an unmapped page, and its start is aligned to the power of two, up to 64,
// that divides its size. Run copies buffers that were written back into the slices.
func (b *Batch) Call(code []byte, entry int, args any, bufs ...any) (*Result, error) {
	for _, x := range bufs {
		if err := b.buffer(x); err != nil {
			return nil, err
		}
	}
	c, err := b.code(code)
	if err != nil {
		return nil, err
	}
	block, err := b.block(args)
	if err != nil {
		return nil, err
	}
	r, err := b.im.add(block, 8, readOnly)
	if err != nil {
		return nil, err
	}
	res := &Result{code: c}
	b.calls = append(b.calls, call{fn: c.Addr + uint64(entry), args: r.Addr})
	b.results = append(b.results, res)
	return res, nil
}

type aligned struct {
	slice any
	align int
}

// Align wraps a buffer that must start at a multiple of n bytes.
func Align(slice any, n int) any { return aligned{slice, n} }

func (b *Batch) code(code []byte) (*Region, error) {
	if r := b.codes[string(code)]; r != nil {
		return r, nil
	}
	r, err := b.im.add(code, page, execute)
	if err != nil {
		return nil, err
	}
	if b.codes == nil {
		b.codes = map[string]*Region{}
	}
	b.codes[string(code)] = r
	return r, nil
}

// buffer registers a slice, unless it is known.
func (b *Batch) buffer(x any) error {
	align := 0
	if a, ok := x.(aligned); ok {
		x, align = a.slice, a.align
	}
	p, n, err := extent(x)
	if err != nil || n == 0 {
		return err
	}
	for _, o := range b.bufs {
		switch d := int(uintptr(p)) - int(uintptr(o.ptr)); {
		case d >= 0 && d+n <= o.size:
			return nil
		case d < o.size && d+n > 0:
			return fmt.Errorf("bochs: buffers overlap in part")
		}
	}
	if align == 0 {
		align = min(n&-n, 64)
	}
	data := append([]byte(nil), unsafe.Slice((*byte)(p), n)...)
	r, err := b.im.add(data, align, readWrite)
	if err != nil {
		return err
	}
	b.bufs = append(b.bufs, buffer{p, n, x, r})
	return nil
}

// extent is the memory of a slice, or of what a pointer points to.
func extent(x any) (p unsafe.Pointer, n int, err error) {
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Slice:
		return v.UnsafePointer(), v.Len() * int(v.Type().Elem().Size()), nil
	case reflect.Pointer:
		return v.UnsafePointer(), int(v.Type().Elem().Size()), nil
	}
	return nil, 0, fmt.Errorf("bochs: buffer is a %T, want a slice or a pointer", x)
}

// block encodes an argument block, pointers translated to guest addresses.
func (b *Batch) block(args any) ([]byte, error) {
	v := reflect.Indirect(reflect.ValueOf(args))
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("bochs: arguments are a %T, want a struct", args)
	}
	var out []byte
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.UnsafePointer:
			a, err := b.translate(f.UnsafePointer())
			if err != nil {
				return nil, fmt.Errorf("bochs: field %s %w", name, err)
			}
			out = binary.LittleEndian.AppendUint64(out, a)
		case reflect.Int64:
			out = binary.LittleEndian.AppendUint64(out, uint64(f.Int()))
		case reflect.Struct: // a block that this one extends
			inner, err := b.block(f.Addr().Interface())
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		default:
			return nil, fmt.Errorf("bochs: field %s is a %s, want unsafe.Pointer or int64", name, f.Type())
		}
	}
	return out, nil
}

func (b *Batch) translate(p unsafe.Pointer) (uint64, error) {
	if p == nil {
		return 0, nil
	}
	for _, o := range b.bufs {
		if d := uintptr(p) - uintptr(o.ptr); d < uintptr(o.size) {
			return o.region.Addr + uint64(d), nil
		}
	}
	return 0, fmt.Errorf("points into no buffer of this batch")
}

// Run starts the emulator, runs all calls in order and fills their results and the buffers. A call
// that faults ends; the next one still runs. The error is about the run as a whole.
func (b *Batch) Run(ctx context.Context) error {
	if b.ran {
		return fmt.Errorf("bochs: batch ran already")
	}
	b.ran = true
	if len(b.calls) == 0 {
		return nil
	}
	ram, err := b.im.build(b.calls)
	if err != nil {
		return err
	}
	out, err := start(ctx, ram, len(b.calls))
	if err != nil {
		return err
	}
	for i, rec := range out.records {
		b.results[i].fill(rec, b)
	}
	return b.copyBack(out.dirty)
}

func (r *Result) fill(rec record, b *Batch) {
	offset := int64(rec[recRIP/8] - r.code.Addr)
	switch rec[recStatus/8] {
	case statusDone:
		r.MXCSR = uint32(rec[recMXCSR/8])
	case statusFault:
		f := &Fault{Vector: uint8(rec[recVector/8]), Code: rec[recError/8], Offset: offset, Addr: rec[recCR2/8]}
		f.Where = b.where(f.Addr)
		r.Fault = f
	case statusRBP:
		r.Fault = fmt.Errorf("bochs: the code changed RBP")
	case statusDF:
		r.Fault = fmt.Errorf("bochs: the code left the direction flag set")
	default:
		r.Fault = fmt.Errorf("bochs: the call was not reached")
	}
}

// where describes a guest address by the nearest buffer.
func (b *Batch) where(addr uint64) string {
	if addr >= stackTop-2*page && addr < stackTop {
		return "the stack: kernels must not use it"
	}
	for i, o := range b.bufs {
		d := int64(addr - o.region.Addr)
		switch {
		case d < 0 && d >= -page:
			return fmt.Sprintf("%d bytes before buffer %d, a %T of %d bytes", -d, i, o.keep, o.size)
		case d >= 0 && d < int64(o.size):
			return fmt.Sprintf("offset %d of buffer %d, a %T of %d bytes", d, i, o.keep, o.size)
		case d >= 0 && d < int64(o.size)+page:
			return fmt.Sprintf("%d bytes after the end of buffer %d, a %T of %d bytes", d-int64(o.size), i, o.keep, o.size)
		}
	}
	return "near no buffer"
}

// copyBack writes dirty pages into the slices; a byte changed around a buffer is an error.
func (b *Batch) copyBack(dirty map[int][]byte) error {
	for i, o := range b.bufs {
		dst := unsafe.Slice((*byte)(o.ptr), o.size)
		for pg := range o.region.pages {
			data, ok := dirty[o.region.first+pg]
			if !ok {
				continue
			}
			off := pg*page - int(o.region.Addr-userBase-uint64(o.region.first*page)) // of the page in the buffer
			for j, c := range data {
				switch at := off + j; {
				case at >= 0 && at < o.size:
					dst[at] = c
				case c != fill:
					return fmt.Errorf("bochs: buffer %d, a %T of %d bytes, was written at offset %d", i, o.keep, o.size, at)
				}
			}
		}
	}
	return nil
}
