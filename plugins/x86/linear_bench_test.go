package x86

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// workload is a linear op on random memory, driven on one thread as the engine does it: cache
// blocks of panels outside, blocks of rows inside, calls of at most MaxCallBytes.
type workload struct {
	p                                kernel.Problem
	x                                kernel.Exec
	entries                          kerneltest.Funcs
	rows                             int
	w, s, a, scale, sum, out, u, tmp []byte
	args                             *kernel.LinearArgs
	unpack                           *kernel.UnpackArgs
}

func newWorkload(t testing.TB, isa ISA, p kernel.Problem, c kernel.Config, rows int) *workload {
	a := emit(t, isa, p, c)
	l := &workload{p: p, x: a.Exec, entries: load(t, a), rows: (rows + a.Exec.MR - 1) / a.Exec.MR * a.Exec.MR}
	panels, groups := p.Layout.Panels(p.N), p.K/max(p.Format.Group, 1)
	l.w = memory("w", panels*p.Layout.PanelBytes(p.Format, p.K)+64)
	l.s = memory("s", panels*p.Layout.ScaleBytes(p.Format, p.K)+64)
	l.a = memory("a", l.rows*p.K*p.Arith.Bytes())
	l.scale, l.sum = memory("scale", 4*l.rows*groups), memory("sum", 4*l.rows*groups)
	l.out = memory("out", 4*l.rows*p.Layout.PaddedN(p.N))
	nc := l.x.NC
	if nc == 0 {
		nc = panels
	}
	l.u = memory("u", nc*l.x.PanelStride+64)
	l.tmp = memory("tmp", l.x.ScratchBytes+64)
	l.args, l.unpack = block[kernel.LinearArgs]("args"), block[kernel.UnpackArgs]("unpack")
	l.run()
	return l
}

var memories = map[string][]byte{}

// memory is a part of a buffer kept for all benchmarks, filled with small random bytes: finite as
// floats too.
func memory(name string, n int) []byte {
	if m := memories[name]; len(m) >= n {
		return m[:n]
	}
	mem, err := jit.Alloc((n+7)&^7, true)
	if err != nil {
		panic(err)
	}
	m := mem.Bytes()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range unsafe.Slice((*uint64)(unsafe.Pointer(&m[0])), len(m)/8) {
		*(*uint64)(unsafe.Pointer(&m[8*i])) = r.Uint64() & 0x3f3f3f3f3f3f3f3f
	}
	memories[name] = m
	return m[:n]
}

// block is an argument block outside the Go heap.
func block[T any](name string) *T { return (*T)(unsafe.Pointer(&memory(name, 256)[0])) }

// bytes is the weight bytes of one run, macs its multiply-accumulates.
func (l *workload) bytes() int64 { return int64(l.p.Layout.TensorBytes(l.p.Format, l.p.N, l.p.K)) }
func (l *workload) macs() int64  { return int64(l.p.N) * int64(l.p.K) * int64(l.rows) }

func (l *workload) run() {
	panels := l.p.Layout.Panels(l.p.N)
	nc := l.x.NC
	if nc == 0 {
		nc = panels
	}
	for first := 0; first < panels; first += nc {
		l.panels(first, min(nc, panels-first))
	}
}

// block runs all rows against n panels.
func (l *workload) panels(first, n int) {
	pb, sb := l.p.Layout.PanelBytes(l.p.Format, l.p.K), l.p.Layout.ScaleBytes(l.p.Format, l.p.K)
	w := unsafe.Pointer(&l.w[first*pb])
	if l.x.Panel {
		*l.unpack = kernel.UnpackArgs{W: w, S: unsafe.Pointer(&l.s[first*sb]), Out: unsafe.Pointer(&l.u[0]), Panels: int64(n)}
		l.entries["unpack"](unsafe.Pointer(l.unpack))
		w, pb = unsafe.Pointer(&l.u[0]), l.x.PanelStride
	}
	call := max(1, kernel.MaxCallBytes/pb/l.x.Streams) * l.x.Streams
	ldc := 4 * l.p.Layout.PaddedN(l.p.N)
	groups := l.p.K / max(l.p.Format.Group, 1)
	for m := 0; m < l.rows; m += l.x.MR {
		for i := 0; i < n; {
			c, entry := min(call, (n-i)/l.x.Streams*l.x.Streams), "main"
			if c == 0 {
				c, entry = 1, "tail"
			}
			*l.args = kernel.LinearArgs{W: unsafe.Add(w, i*pb), S: unsafe.Pointer(&l.s[(first+i)*sb]),
				A: unsafe.Pointer(&l.a[m*l.p.K*l.p.Arith.Bytes()]), AScale: unsafe.Pointer(&l.scale[4*m*groups]),
				ASum: unsafe.Pointer(&l.sum[4*m*groups]), Out: unsafe.Pointer(&l.out[m*ldc+(first+i)*l.p.Layout.NR()*4]),
				Panels: int64(c), LDC: int64(ldc), Tmp: unsafe.Pointer(&l.tmp[0])}
			l.entries[entry](unsafe.Pointer(l.args))
			i += c
		}
	}
}

var benchFormats = []kernel.Format{kernel.Asym(128), kernel.FormatQ4_0, kernel.FormatQ8_0, kernel.FormatQ4_K, kernel.FormatQ6_K}

// BenchmarkDecode streams 128 MiB of distinct weights; compare GB/s with BenchmarkStream.
func BenchmarkDecode(b *testing.B) {
	benchEach(b, func(b *testing.B, isa ISA) {
		for _, f := range benchFormats {
			for _, arith := range []kernel.Arith{kernel.A8, kernel.A16} {
				for _, m := range []int{1, 4} {
					p := benchProblem(isa, f, arith, m)
					p.N = 128 << 20 * 8 / p.K / f.Bits
					b.Run(p.String(), func(b *testing.B) {
						l := newWorkload(b, isa, p, spaceOf(b, isa, p).Default(), m)
						rate(b, "GB/s", l.bytes(), l.run)
					})
				}
			}
		}
	})
}

// BenchmarkPrefill multiplies 512 rows; compare GMAC/s with BenchmarkPeak.
func BenchmarkPrefill(b *testing.B) {
	benchEach(b, func(b *testing.B, isa ISA) {
		for _, f := range benchFormats {
			for _, arith := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
				p := benchProblem(isa, f, arith, 512)
				b.Run(p.String(), func(b *testing.B) {
					l := newWorkload(b, isa, p, spaceOf(b, isa, p).Default(), 512)
					rate(b, "GMAC/s", l.macs(), l.run)
				})
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	benchEach(b, func(b *testing.B, isa ISA) {
		p := kernel.Problem{Op: kernel.OpStream}
		for _, c := range sample(rand.New(rand.NewPCG(1, 1)), spaceOf(b, isa, p), 12) {
			b.Run(c.String(), func(b *testing.B) {
				a := emit(b, isa, p, c)
				main, buf := load(b, a)["main"], memory("w", 128<<20)
				args := block[kernel.ProbeArgs]("args")
				rate(b, "GB/s", int64(len(buf)), func() {
					for at := 0; at < len(buf); at += 512 << 10 {
						*args = kernel.ProbeArgs{Buf: unsafe.Pointer(&buf[at]), Bytes: 512 << 10}
						main(unsafe.Pointer(args))
					}
				})
			})
		}
	})
}

func BenchmarkPeak(b *testing.B) {
	benchEach(b, func(b *testing.B, isa ISA) {
		for _, arith := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
			b.Run(string(arith), func(b *testing.B) {
				a := emit(b, isa, kernel.Problem{Op: kernel.OpPeak, Arith: arith}, kernel.Config{})
				main := load(b, a)["main"]
				args := block[kernel.ProbeArgs]("args")
				*args = kernel.ProbeArgs{Buf: unsafe.Pointer(&memory("a", 4096)[0]), Bytes: 4096, Iters: 1000}
				rate(b, "GMAC/s", int64(a.Exec.Unit)*1000, func() { main(unsafe.Pointer(args)) })
			})
		}
	})
}

// rate reports billions of units a second of the thread's CPU time: waits for a busy machine do not
// count.
func rate(b *testing.B, unit string, n int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(n)*float64(b.N)/(threadTime()-start), unit)
}

// threadTime is the CPU time of the thread, in nanoseconds.
func threadTime() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return float64(ts.Nano())
}

// benchProblem is a layer of 2048 x 2048 in the default layout.
func benchProblem(isa ISA, f kernel.Format, arith kernel.Arith, m int) kernel.Problem {
	ls, err := testBackend(isa).Layouts(context.Background(), isa.Features, f)
	if err != nil {
		panic(err)
	}
	return kernel.Problem{Op: kernel.OpLinear, Arith: arith, M: m, N: 2048, K: 2048, Format: f, Layout: ls[0]}
}

func benchEach(b *testing.B, f func(b *testing.B, isa ISA)) {
	for _, s := range isas {
		if s.native {
			b.Run(s.isa.Name, func(b *testing.B) { f(b, s.isa) })
		}
	}
}
