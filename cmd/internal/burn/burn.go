// Package burn keeps a core busy, for studies of what a busy machine does to a tune.
package burn

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bursts, on average.
const (
	burst = 700 * time.Millisecond
	pause = 1800 * time.Millisecond
)

// Core keeps a core busy in bursts of random length until stop is called, from this process.
func Core(core int) (stop func(), err error) {
	quit, ready := make(chan struct{}), make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // ends with the thread, whose mask is changed
		var set unix.CPUSet
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			ready <- fmt.Errorf("keep core %d busy: %w", core, err)
			return
		}
		ready <- nil
		for {
			for end := time.Now().Add(around(burst)); time.Now().Before(end); {
			}
			select {
			case <-quit:
				return
			case <-time.After(around(pause)):
			}
		}
	})
	if err := <-ready; err != nil {
		wg.Wait()
		return nil, err
	}
	return func() { close(quit); wg.Wait() }, nil
}

func around(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.5 + rand.Float64()))
}
