package cache

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// vllm#52413, triton#11319 (a torn group of files), triton#518 (a full or read-only disk): killed or failing at each write step, old or new is found, never a mix.
func TestCrashAtEachWriteStep(t *testing.T) {
	for _, cause := range []error{errCrash, syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
		for _, step := range writeSteps {
			t.Run(fmt.Sprintf("%v at %s", cause, step), func(t *testing.T) {
				s, dir := tempStore(t)
				old := testDecision()
				if err := s.PutDecision(old); err != nil {
					t.Fatal(err)
				}
				failpoint = func(at writeStep) error {
					if at == step {
						return cause
					}
					return nil
				}
				defer func() { failpoint = nil }()
				next := testDecision()
				next.Evidence[0].Ratio = 2
				if err := s.PutDecision(next); err != nil {
					t.Fatalf("a failed write must fall back to memory: %v", err)
				}
				if s.Warning() == "" {
					t.Error("no warning")
				}
				if d, look := s.Decision(old.Key); look.Status != Exact || d.Evidence[0].Ratio != 2 {
					t.Errorf("this process must see what it wrote: %+v", look)
				}
				failpoint = nil
				s2 := open(t, dir)
				d, look := s2.Decision(old.Key)
				if look.Status != Exact || d.Evidence[0].Ratio != 1.1 && d.Evidence[0].Ratio != 2 {
					t.Fatalf("after restart: %+v %+v", look, d.Evidence)
				}
				if err := s2.PutDecision(next); err != nil {
					t.Fatal(err)
				}
				if d, _ := s2.Decision(old.Key); d.Evidence[0].Ratio != 2 {
					t.Error("the next write did not heal")
				}
			})
		}
	}
}

// sglang#20373, triton#2688: concurrent writers, in goroutines and in processes, lose nothing.
func TestConcurrentWritersLoseNothing(t *testing.T) {
	_, dir := tempStore(t)
	var wg sync.WaitGroup
	const writers, each = 16, 20
	for w := range writers {
		wg.Go(func() {
			s := Open(Options{Dir: dir})
			defer s.Close()
			for i := range each {
				d := testDecision()
				d.Key.CPUs = w*each + i
				if err := s.PutDecision(d); err != nil {
					t.Error(err)
				}
				shared := testDecision()
				shared.Evidence[0].Ratio = float64(w)
				if err := s.PutDecision(shared); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, dir)
	for i := range writers * each {
		k := testDecisionKey()
		k.CPUs = i
		if _, look := s.Decision(k); look.Status != Exact {
			t.Fatalf("entry %d: %+v", i, look)
		}
	}
	if bad, _, err := s.Verify(false); err != nil || len(bad) > 0 {
		t.Errorf("verify: %v %v", bad, err)
	}
}

// Children of the tests that need processes: CACHE_TEST_CHILD says what one does.
func TestMain(m *testing.M) {
	dir, n := os.Getenv("CACHE_TEST_DIR"), os.Getenv("CACHE_TEST_N")
	id, _ := strconv.Atoi(n)
	lockWait = 300 * time.Millisecond
	slog.SetLogLoggerLevel(slog.LevelError)
	switch os.Getenv("CACHE_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "forever":
		for i := 0; ; i++ {
			must(putNumbered(dir, i%50, float64(i)))
		}
	case "writer":
		for i := range writerEntries {
			must(putNumbered(dir, 1000+id*writerEntries+i, 1))
			must(putNumbered(dir, 0, float64(id)))
		}
	case "die":
		failpoint = func(at writeStep) error {
			if string(at) == n {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Minute)
			}
			return nil
		}
		must(putNumbered(dir, 0, 2))
	case "hold":
		s := Open(Options{Dir: dir})
		s.user.lock(KindDecision)
		fmt.Println("held")
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

const writerEntries = 5

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

// putNumbered opens a store, puts a decision of its own key and evidence, and demands that it was written.
func putNumbered(dir string, n int, ratio float64) error {
	s := Open(Options{Dir: dir})
	defer s.Close()
	d := testDecision()
	d.Key.CPUs, d.Evidence[0].Ratio = n, ratio
	if err := s.PutDecision(d); err != nil || s.Warning() != "" {
		return fmt.Errorf("%v %s", err, s.Warning())
	}
	return nil
}

func numbered(s *Store, n int) (float64, Lookup) {
	k := testDecisionKey()
	k.CPUs = n
	d, look := s.Decision(k)
	if look.Status == Miss {
		return 0, look
	}
	return d.Evidence[0].Ratio, look
}

func mustPut(t *testing.T, dir string, n int, ratio float64) {
	t.Helper()
	if err := putNumbered(dir, n, ratio); err != nil {
		t.Fatal(err)
	}
}

func child(t *testing.T, what, dir string, n any) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CACHE_TEST_CHILD="+what, "CACHE_TEST_DIR="+dir, fmt.Sprintf("CACHE_TEST_N=%v", n))
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// vllm#52413, triton#11319: kill -9 at each write step leaves the old entry or the new one, whole.
func TestKilledAtEachWriteStep(t *testing.T) {
	for _, step := range writeSteps {
		t.Run(string(step), func(t *testing.T) {
			_, dir := tempStore(t)
			mustPut(t, dir, 0, 1)
			if err := child(t, "die", dir, step).Run(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the child was not killed: %v", err)
			}
			s := open(t, dir)
			ratio, look := numbered(s, 0)
			if look.Status != Exact || ratio != 1 && ratio != 2 {
				t.Errorf("found %g, %+v", ratio, look)
			}
			if bad, _, err := s.Verify(false); err != nil || len(bad) > 0 {
				t.Errorf("verify: %v %v", bad, err)
			}
			mustPut(t, dir, 0, 3)
			if ratio, _ := numbered(s, 0); ratio != 3 {
				t.Errorf("after the next write: %g", ratio)
			}
		})
	}
}

// sglang#20373, triton#2688: 16 processes write at once; the union is kept.
func TestConcurrentProcessesLoseNothing(t *testing.T) {
	_, dir := tempStore(t)
	const writers = 16
	var cmds []*exec.Cmd
	for i := range writers {
		cmd := child(t, "writer", dir, i)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := open(t, dir)
	for i := range writers * writerEntries {
		if _, look := numbered(s, 1000+i); look.Status != Exact {
			t.Fatalf("entry %d: %+v", i, look)
		}
	}
	if bad, n, err := s.Verify(false); err != nil || len(bad) > 0 || n != writers*writerEntries+1 {
		t.Errorf("verify: %d entries, %v %v", n, bad, err)
	}
}

// A lock ends with its holder, and one that is held does not stop a writer for ever.
func TestLocksNeverWedge(t *testing.T) {
	s, dir := tempStore(t)
	cmd := child(t, "hold", dir, 0)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("held"))); err != nil {
		t.Fatal(err)
	}
	mustPut(t, dir, 1, 1) // after lockWait
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	done := make(chan func())
	go func() { done <- s.user.lock(KindDecision) }()
	select {
	case unlock := <-done:
		unlock()
	case <-time.After(lockWait / 2):
		t.Error("the lock of a killed process is still held")
	}
}

func TestKilledWriterLeavesAWholeStore(t *testing.T) {
	s, dir := tempStore(t)
	for range 5 {
		cmd := child(t, "forever", dir, 0)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		bad, n, err := s.Verify(false)
		if err != nil || len(bad) > 0 {
			t.Fatalf("after a kill: %v %v", bad, err)
		}
		if n == 0 {
			t.Skip("the writer did not get to write")
		}
	}
}
