package bench

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRssAnon(t *testing.T) {
	if n, err := RssAnon(os.Getpid()); err != nil || n <= 0 {
		t.Errorf("RssAnon = %d, %v", n, err)
	}
	if _, err := RssAnon(-1); err == nil {
		t.Error("a process that is not there has memory")
	}
	if n := StartPeak().Stop(); n <= 0 {
		t.Errorf("peak %d", n)
	}
}

// Between vfork and exec a child shows its parent's memory as its own: a tree was read at twice its size.
func TestSharedMemoryCountsOnce(t *testing.T) {
	if self := os.Getpid(); !sharesMemory(self, self) {
		t.Skip("the kernel refuses kcmp")
	}
	const size = 64 << 20
	held := bytes.Repeat([]byte{1}, size)
	var quit atomic.Bool
	var starts sync.WaitGroup
	starts.Go(func() {
		for !quit.Load() {
			_ = exec.Command("./no-such-program").Run() // the child ends where its exec fails
		}
	})
	self, seen := os.Getpid(), 0
	limit := time.Now().Add(10 * time.Second)
	for seen < 20 && time.Now().Before(limit) {
		for _, child := range Children(self) {
			if sharesMemory(child, self) {
				seen++
			}
		}
		before, _ := rssAnon(self)
		tree, _ := RssAnon(self)
		after, _ := rssAnon(self)
		if tree > max(before, after)+size/2 {
			t.Errorf("a tree of %d MB is read as %d MB", max(before, after)>>20, tree>>20)
		}
	}
	quit.Store(true)
	starts.Wait()
	if seen == 0 {
		t.Skip("no child was seen between vfork and exec: too few CPUs to catch one")
	}
	runtime.KeepAlive(held)
}

func TestForkedMemoryIsItsOwn(t *testing.T) {
	c := exec.Command("sh", "-c", "exec 3<&0; (read x <&3) & wait")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = c.Wait()
	}()
	for range 500 {
		if kids := Children(c.Process.Pid); len(kids) == 1 {
			if sharesMemory(kids[0], c.Process.Pid) {
				t.Error("a forked shell is said to share its parent's memory")
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the shell never forked")
}
