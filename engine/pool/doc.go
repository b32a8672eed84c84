// Package pool runs fork/join regions on a fixed set of workers, each a goroutine locked to an OS
// thread that is pinned to one CPU. Between regions a worker spins for a while, then parks on a
// futex: a region that follows within the spin costs about a microsecond.
package pool
