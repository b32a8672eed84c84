package pool

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MaxWorkers bounds a pool: the number of active workers shares a word with the epoch.
const MaxWorkers = 1<<workerBits - 1

const workerBits = 10

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("pool: closed")

// Pool is a set of workers. Worker 0, the leader, runs what Do is given; Run, called from there,
// forks to the others and joins them.
type Pool struct {
	// Clock, if set before the first Run, is read when the leader has done its own share of a region;
	// Done holds that reading. Forks counts the regions of more than one worker. Ran is how many workers
	// the last region was handed to and have reported it done. Read them on the leader, or while
	// nothing runs.
	Clock func() int64
	Done  int64
	Forks int64
	Ran   int

	spin time.Duration
	cpus []int

	_     [64]byte
	state atomic.Uint32 // epoch<<workerBits | workers of the region
	_     [60]byte

	fn      func(worker int) // of the current region, published by state
	closing bool
	slots   []slot
	jobs    chan job
	done    sync.WaitGroup
	closed  atomic.Bool
	once    sync.Once
	mu      sync.RWMutex // held by Do while it sends
}

type job struct {
	fn   func() error
	done chan error
}

// slot is one worker's side of the join, on its own cache lines.
type slot struct {
	done    atomic.Uint32 // state of the last region finished
	parked  atomic.Uint32 // the worker sleeps on Pool.state
	waiting atomic.Uint32 // the leader sleeps on done
	err     error
	_       [128]byte
}

// New starts a pool of the given number of workers, pinned to cpus in order; with more workers than
// CPUs they share and spin is taken as 0. spin is how long a worker, or the leader at a join, polls
// before it parks. Empty cpus means those that the process may use.
func New(threads int, cpus []int, spin time.Duration) (*Pool, error) {
	if threads < 1 || threads > MaxWorkers {
		return nil, fmt.Errorf("pool: %d threads: want 1 to %d", threads, MaxWorkers)
	}
	if len(cpus) == 0 {
		var err error
		if cpus, err = AllowedCPUs(); err != nil {
			return nil, err
		}
	}
	if threads > len(cpus) {
		spin = 0
	}
	p := &Pool{spin: spin, cpus: cpus, slots: make([]slot, threads), jobs: make(chan job)}
	started := make(chan error, threads)
	p.done.Add(threads)
	go p.lead(started)
	for w := 1; w < threads; w++ {
		go p.work(w, started)
	}
	var errs []error
	for range threads {
		errs = append(errs, <-started)
	}
	if err := errors.Join(errs...); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Workers is the number of workers, the leader included.
func (p *Pool) Workers() int { return len(p.slots) }

// Do runs fn on the leader, where it may call Run, and returns its error. Calls from several
// goroutines follow each other.
func (p *Pool) Do(fn func() error) error {
	p.mu.RLock()
	if p.closed.Load() {
		p.mu.RUnlock()
		return ErrClosed
	}
	j := job{fn, make(chan error, 1)}
	p.jobs <- j
	p.mu.RUnlock()
	return <-j.done
}

// Run calls fn(w) for w = 0 to n-1, each on its worker, and returns when all have: the first error,
// where a panic or a memory fault in fn is an error. Call it within Do only.
func (p *Pool) Run(n int, fn func(worker int)) error {
	n = min(n, len(p.slots))
	if n <= 1 {
		p.lap(fn)
		p.Ran = 1
		return p.firstError(1)
	}
	p.fn = fn
	p.Forks++
	s := p.publish(n)
	p.lap(fn)
	p.Ran = 1
	for w := 1; w < n; w++ {
		p.join(&p.slots[w], s)
		p.Ran++
	}
	return p.firstError(n)
}

// lap is the leader's own share of a region.
func (p *Pool) lap(fn func(int)) {
	p.call(0, fn)
	if p.Clock != nil {
		p.Done = p.Clock()
	}
}

// Close stops the workers and waits for them. A Do in progress ends first.
func (p *Pool) Close() {
	p.once.Do(func() {
		p.mu.Lock()
		p.closed.Store(true)
		close(p.jobs)
		p.mu.Unlock()
		p.done.Wait()
	})
}

func (p *Pool) lead(started chan<- error) {
	defer p.done.Done()
	// A locked goroutine that ends takes its thread with it, so the affinity needs no undoing.
	runtime.LockOSThread()
	started <- p.pin(0)
	debug.SetPanicOnFault(true)
	for j := range p.jobs {
		j.done <- guard(j.fn)
	}
	p.closing = true
	p.publish(len(p.slots))
}

func (p *Pool) work(w int, started chan<- error) {
	defer p.done.Done()
	runtime.LockOSThread()
	started <- p.pin(w)
	debug.SetPanicOnFault(true)
	s := &p.slots[w]
	for last := uint32(0); ; {
		last = p.await(s, last)
		if w >= int(last&MaxWorkers) {
			continue
		}
		if p.closing {
			return
		}
		p.call(w, p.fn)
		s.done.Store(last)
		if s.waiting.Load() != 0 {
			futexWake(&s.done)
		}
	}
}

// publish starts a region of n workers and wakes those that sleep.
func (p *Pool) publish(n int) uint32 {
	s := (p.state.Load()>>workerBits+1)<<workerBits | uint32(n)
	p.state.Store(s)
	for w := 1; w < n; w++ {
		if p.slots[w].parked.Load() != 0 {
			futexWake(&p.state)
			break
		}
	}
	return s
}

// await returns the state once it differs from last.
func (p *Pool) await(s *slot, last uint32) uint32 {
	if v, ok := poll(&p.state, p.spin, func(v uint32) bool { return v != last }); ok {
		return v
	}
	s.parked.Store(1)
	defer s.parked.Store(0)
	for {
		if v := p.state.Load(); v != last {
			return v
		}
		futexWait(&p.state, last)
	}
}

// join returns when a worker has finished the region of state want.
func (p *Pool) join(s *slot, want uint32) {
	// A join is never longer than a region, so the leader polls at least a little even where
	// workers do not spin, but gives way soon: they may need its CPU.
	if _, ok := poll(&s.done, p.spin, func(v uint32) bool { return v == want }); ok {
		return
	}
	s.waiting.Store(1)
	defer s.waiting.Store(0)
	for {
		v := s.done.Load()
		if v == want {
			return
		}
		futexWait(&s.done, v)
	}
}

func (p *Pool) pin(w int) error {
	var set unix.CPUSet
	cpu := p.cpus[w%len(p.cpus)]
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pool: pin worker %d to CPU %d: %w", w, cpu, err)
	}
	return nil
}

// AllowedCPUs lists the CPUs that the process may run on.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("pool: allowed CPUs: %w", err)
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
