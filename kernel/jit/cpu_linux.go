package jit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// start is the affinity of the process before any thread was pinned.
var start, startErr = Affinity()

// AllowedCPUs lists the CPUs that the process could use when it started, in order. Threads that
// were pinned since do not change it.
func AllowedCPUs() ([]int, error) { return append([]int(nil), start...), startErr }

// Affinity lists the CPUs that the calling thread may run on, in order.
func Affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("jit: sched_getaffinity: %w", err)
	}
	var cpus []int
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// SetAffinity lets the calling thread run on cpus only. The goroutine must have called
// runtime.LockOSThread, and not unlock before the affinity is restored.
func SetAffinity(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		if c < 0 || c >= len(set)*64 {
			return fmt.Errorf("jit: no CPU %d", c)
		}
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("jit: pinning to CPUs %v: %w", cpus, err)
	}
	return nil
}

// Pin lets the calling thread run on one CPU only, as SetAffinity does.
func Pin(cpu int) error { return SetAffinity([]int{cpu}) }
