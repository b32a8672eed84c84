package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/session"
)

// backendsOf lists the processes of backends that a process has started.
func backendsOf(t *testing.T, parent int) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, d := range dirs {
		stat, err1 := os.ReadFile(filepath.Join(d, "stat"))
		line, err2 := os.ReadFile(filepath.Join(d, "cmdline"))
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if err1 != nil || err2 != nil || len(fields) < 2 || !bytes.HasPrefix(line, []byte("tilewright-backend-")) {
			continue
		}
		if ppid, err := strconv.Atoi(string(fields[1])); err == nil && ppid == parent {
			pid, _ := strconv.Atoi(filepath.Base(d))
			out = append(out, pid)
		}
	}
	return out
}

// Built-in backends that somebody kills all through a tune, by SIGKILL or SIGTERM, are started again: the
// tune comes to its verdicts and says what happened.
func TestKilledBackendsDoNotEndATune(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as its budget")
	}
	t.Parallel()
	for _, budget := range []string{"25s", "45s"} {
		r, stderr, kills := tuneWithKills(t, budget)
		for _, phase := range []string{"decode", "prefill"} {
			if !slices.ContainsFunc(r.Verdicts, func(v session.Verdict) bool { return v.Phase == phase && v.Problem == "whole" }) {
				t.Errorf("no verdict on %s", phase)
			}
		}
		if strings.Contains(stderr, "starting it again") {
			return
		}
		if slices.ContainsFunc(r.Verdicts, func(v session.Verdict) bool { return v.Why != measure.WhyBudget }) {
			t.Fatalf("%d kills: %s", kills, stderr)
		}
	}
	t.Skip("this machine is too busy for a tune to need its backends again in 45 s")
}

// tuneWithKills tunes the smallest preset while every backend is killed soon after its start.
func tuneWithKills(t *testing.T, budget string) (r report, errs string, kills int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("tune", "--host-profile", "--preset", "smollm2-135m", "--budget", budget, "--allow-busy", "--no-progress", "--json",
		"--cache-dir", filepath.Join(t.TempDir(), "cache"), "--plugin-dir", t.TempDir())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	born := map[int]time.Time{}
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Fatalf("after %d kills: %v\n%s", kills, err, &stderr)
			}
		case now := <-time.After(100 * time.Millisecond):
			for _, pid := range backendsOf(t, cmd.Process.Pid) {
				if born[pid].IsZero() {
					born[pid] = now
				}
				if now.Sub(born[pid]) < 300*time.Millisecond {
					continue // it must have had time to start, or none ever does
				}
				if syscall.Kill(pid, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[kills%2]) == nil {
					kills++
				}
			}
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, &stdout)
	}
	return r, stderr.String(), kills
}
