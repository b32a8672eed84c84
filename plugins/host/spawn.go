package host

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts processes from one thread that lives as long as any of them: Pdeathsig fires when
// the *thread* that forked ends, and the Go runtime ends threads as it likes.
type spawner struct {
	mu    sync.Mutex
	users int
	work  chan func()
}

var spawn spawner

// start starts cmd from the locked thread; each successful call is paired with one release, after
// the process was reaped.
func (s *spawner) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		s.work = make(chan func())
		go loop(s.work)
	}
	s.users++
	done := make(chan error)
	s.work <- func() { done <- cmd.Start() }
	err := <-done
	if err != nil {
		s.releaseLocked()
	}
	return err
}

func (s *spawner) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

func (s *spawner) releaseLocked() {
	s.users--
	if s.users == 0 {
		close(s.work)
	}
}

func loop(work <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for f := range work {
		f()
	}
}
