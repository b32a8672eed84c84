package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
)

// envTune makes this test binary tune the tiny model in the folder that it names.
const envTune = "TILEWRIGHT_TEST_TUNE"

const (
	killJournal = "journal.jsonl"
	killResult  = "result.json"
	killBudget  = 25 * time.Second
)

func tuneTiny(dir string) int {
	o, err := tinyOptions(dir, killBudget)
	if err == nil {
		o.Journal = filepath.Join(dir, killJournal)
		var res Result
		if res, err = Tune(context.Background(), o); err == nil {
			o.Store.Close()
			var b []byte
			if b, err = json.Marshal(res.Verdicts); err == nil {
				err = os.WriteFile(filepath.Join(dir, killResult), b, 0o600)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child starts a tune in dir.
func child(t *testing.T, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envTune+"="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// lines are the whole records of a journal.
func lines(t *testing.T, b []byte) []string {
	t.Helper()
	all := strings.SplitAfter(string(b), "\n")
	if n := len(all); n > 0 && !strings.HasSuffix(all[n-1], "\n") {
		all = all[:n-1]
	}
	return all
}

// onlyOnce checks that no piece of work was done twice, and that blocks measured the default.
func onlyOnce(t *testing.T, records []string) {
	t.Helper()
	seen := map[string]bool{}
	for i, l := range records {
		var rec journal.Record
		if i == 0 {
			continue // the header
		}
		if err := json.Unmarshal([]byte(l), &rec); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if key := rec.Kind + " " + rec.Key; seen[key] {
			t.Errorf("measured again: %s", key)
		} else {
			seen[key] = true
		}
		var b blockRecord
		if rec.Kind != "block" {
			continue
		}
		if err := json.Unmarshal(rec.Body, &b); err != nil {
			t.Fatal(err)
		}
		if b.Disturbed == "" && !(b.Costs[0] > 0) {
			t.Errorf("%s does not hold the default", rec.Key)
		}
	}
}

// orphans counts processes that work for a tune in dir.
func orphans(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(envTune+"="+dir+"\x00")) {
			n++
		}
	}
	return n
}

// A tune killed at any moment resumes: what was finished is kept and not done again, blocks that come
// after hold the default too, and the result is whole. tensorrt#506, TensorRT-LLM#3086.
func TestKilledTuneResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of a whole tune")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, killJournal)
	var kept []string
	check := func(what string, b []byte) {
		t.Helper()
		now := lines(t, b)
		if len(now) < len(kept) || strings.Join(now[:len(kept)], "") != strings.Join(kept, "") {
			t.Fatalf("%s: the journal lost finished work: %d records, %d before", what, len(now), len(kept))
		}
		onlyOnce(t, now)
		kept = now
	}
	for round := range 3 {
		cmd, out := child(t, dir)
		for grown := time.Now().Add(30 * time.Second); time.Now().Before(grown); time.Sleep(5 * time.Millisecond) {
			if b, err := os.ReadFile(file); err == nil && len(lines(t, b)) > len(kept)+5 {
				break // something new was measured
			}
			if _, err := os.Stat(filepath.Join(dir, killResult)); err == nil {
				t.Skip("this machine is so busy that the tune had no time to measure anything")
			}
		}
		pause := rand.N(300 * time.Millisecond)
		time.Sleep(pause)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Fatalf("ended by itself: %v\n%s", err, out)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("kill %d after %v", round, pause), b)
		if round%2 == 1 { // the kill came while a record was being written
			torn := append(bytes.Clone(b[:0:0]), []byte(strings.Join(kept, ""))...)
			torn = append(torn, `{"kind":"block","key":"qkv m1 99","body":{"arms":["a`...)
			if err := os.WriteFile(file, torn, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(kept) < 15 {
		t.Errorf("%d records in three runs: the kills came before anything was measured", len(kept))
	}
	deadline := time.Now().Add(5 * time.Second)
	for orphans(t, dir) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := orphans(t, dir); n > 0 {
		t.Errorf("%d processes outlived their tune", n)
	}

	cmd, out := child(t, dir)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var last []byte
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil && !strings.Contains(out.String(), measure.ErrVoid.Error()) {
				t.Fatalf("%v\n%s", err, out)
			}
		case <-time.After(20 * time.Millisecond):
			if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
				last = b
			}
		}
	}
	check("the whole run", last)
	if strings.Contains(out.String(), measure.ErrVoid.Error()) {
		t.Skipf("it resumed, but came to no verdict on this machine: %s", out)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the journal of a finished tune is still there: %v", err)
	}
	var vs []Verdict
	b, err := os.ReadFile(filepath.Join(dir, killResult))
	if err == nil {
		err = json.Unmarshal(b, &vs)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]string{}
	for _, v := range vs {
		if v.Problem == "whole" {
			whole[v.Phase] = v.Decision
		}
	}
	for _, phase := range []string{phaseDecode, phasePrefill} {
		if d := whole[phase]; d != "winner" && d != "no winner" {
			t.Errorf("%s: decision %q", phase, d)
		}
	}
}
