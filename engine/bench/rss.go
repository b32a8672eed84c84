package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RssAnon returns the anonymous resident bytes of a process and all its descendants. VmRSS would
// count the page cache of mapped files, which comes and goes. Memory that a child shares with its
// parent, as between vfork and exec, counts once.
func RssAnon(pid int) (int64, error) {
	own, err := rssAnon(pid)
	if err != nil {
		return 0, err
	}
	return own + descendants(pid), nil
}

func descendants(pid int) int64 {
	var total int64
	for _, child := range Children(pid) {
		if !sharesMemory(child, pid) { // asked first: after its exec a child shares no more
			if n, err := rssAnon(child); err == nil {
				total += n
			}
		}
		total += descendants(child)
	}
	return total
}

func rssAnon(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no RssAnon", pid)
}

// Settled is the median RssAnon of the process tree over a few readings, after garbage was given
// back to the system.
func Settled() (int64, error) {
	debug.FreeOSMemory()
	var xs []int64
	for range 5 {
		n, err := RssAnon(os.Getpid())
		if err != nil {
			return 0, err
		}
		xs = append(xs, n)
		time.Sleep(10 * time.Millisecond)
	}
	sort.Slice(xs, func(i, j int) bool { return xs[i] < xs[j] })
	return xs[len(xs)/2], nil
}

// Peak samples RssAnon of the process tree every 10 ms.
type Peak struct {
	once sync.Once
	stop chan struct{}
	done sync.WaitGroup
	max  int64
}

// StartPeak begins sampling; call it first thing in main.
func StartPeak() *Peak {
	p := &Peak{stop: make(chan struct{})}
	p.done.Go(func() {
		t := time.NewTicker(10 * time.Millisecond)
		defer t.Stop()
		for {
			if n, err := RssAnon(os.Getpid()); err == nil {
				p.max = max(p.max, n)
			}
			select {
			case <-p.stop:
				return
			case <-t.C:
			}
		}
	})
	return p
}

// Stop ends sampling and returns the greatest value seen. It may be called again.
func (p *Peak) Stop() int64 {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
	return p.max
}
