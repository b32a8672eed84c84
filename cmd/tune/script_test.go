package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/cmd/internal/scripttest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/session"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

func TestMain(m *testing.M) {
	app.MaybeServe()
	app.MaybeRun()
	testscript.Main(m, map[string]func(){
		"tune": func() { os.Exit(realMain()) },
		"arm":  arm,
	})
}

// arm is a program to compare. Its arguments are text to print, or: once=FILE works the first time
// only; exit=N, signal=N and sleep=DURATION end it that way, after its stderr=TEXT; env=NAME prints a
// variable, grow=FILE another number each time, count=FILE the next one from 5; worker=MIB holds memory in a child for a moment,
// daemon=MIB in a process that it leaves behind.
func arm() {
	var out []string
	fail := false
	for _, a := range os.Args[1:] {
		name, v, _ := strings.Cut(a, "=")
		n, _ := strconv.Atoi(v)
		switch name {
		case "once":
			f, err := os.OpenFile(v, os.O_CREATE|os.O_EXCL, 0o600)
			fail = err != nil
			f.Close()
		case "stderr":
			fmt.Fprintln(os.Stderr, v)
		case "exit":
			if fail {
				os.Exit(n)
			}
		case "signal":
			_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
			time.Sleep(time.Minute)
		case "sleep":
			d, _ := time.ParseDuration(v)
			time.Sleep(d)
		case "grow":
			b, _ := os.ReadFile(v)
			_ = os.WriteFile(v, append(b, 'x'), 0o600)
			out = append(out, fmt.Sprint((len(b)*len(b))%7+1))
		case "count":
			b, _ := os.ReadFile(v)
			_ = os.WriteFile(v, append(b, 'x'), 0o600)
			out = append(out, fmt.Sprint(5+len(b)))
		case "daemon": // holds memory behind a session of its own, and does not end
			_ = os.Remove("daemon.pid")
			_ = exec.Command(os.Args[0], "leave="+v).Run()
			for range 500 {
				if time.Sleep(20 * time.Millisecond); fileExists("daemon.pid") {
					break
				}
			}
			time.Sleep(300 * time.Millisecond)
		case "leave":
			c := exec.Command(os.Args[0], "stay="+v)
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = c.Start()
		case "stay":
			b := bytes.Repeat([]byte{1}, n<<20)
			_ = os.WriteFile("daemon.pid", fmt.Append(nil, os.Getpid()), 0o600)
			time.Sleep(time.Hour)
			runtime.KeepAlive(b)
		case "worker":
			c := exec.Command(os.Args[0], "hold="+v)
			_ = c.Run()
		case "hold":
			b := make([]byte, n<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			time.Sleep(150 * time.Millisecond)
			runtime.KeepAlive(b)
		case "env":
			out = append(out, os.Getenv(v))
		default:
			out = append(out, a)
		}
	}
	fmt.Println(strings.Join(out, ""))
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scripttest.Cmds["exits"], "conforms": scripttest.Cmds["conforms"], "store": storeCmd, "mode": modeCmd, "tuned": tunedCmd, "gone": goneCmd,
		},
		Setup: func(e *testscript.Env) error {
			root, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			self, err := exec.LookPath("tune")
			if err != nil {
				return err
			}
			e.Vars = append(e.Vars, "SELF="+filepath.Dir(self), "TILEWRIGHT_CACHE_DIR="+e.WorkDir+"/cache", "TILEWRIGHT_SYSTEM_CACHE_DIR="+e.WorkDir+"/system",
				"TILEWRIGHT_PLUGIN_DIR="+e.WorkDir+"/plugins", "ROOT="+root)
			for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOTOOLCHAIN"} {
				v, err := exec.Command("go", "env", name).Output()
				if err != nil {
					return err
				}
				e.Vars = append(e.Vars, name+"="+strings.TrimSpace(string(v)))
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "amd64":
				return runtime.GOARCH == "amd64", nil
			case "judged":
				return tuned.judged.Load(), nil
			case "void":
				return tuned.void.Load(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// gone FILE checks that the process whose number is in a file has ended.
func goneCmd(ts *testscript.TestScript, _ bool, args []string) {
	if pid, err := strconv.Atoi(ts.ReadFile(args[0])); err != nil || syscall.Kill(pid, 0) == nil {
		ts.Fatalf("process %d is still there (%v)", pid, err)
	}
}

// mode MODE FILE checks permissions.
func modeCmd(ts *testscript.TestScript, _ bool, args []string) {
	fi, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", fi.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// tuned says what a tuned command came to: a verdict, or nothing but runs whose judge missed what was
// planted.
var tuned struct{ judged, void atomic.Bool }

// tuned REPORT DIR BUDGET... tunes the smallest preset until a budget is enough for a verdict, since the
// machine may be busy. With a verdict the store must hold the decision, without one none. Conditions
// judged and void tell what it came to; a void run leaves no REPORT.
func tunedCmd(ts *testscript.TestScript, _ bool, args []string) {
	tuned.judged.Store(false)
	for _, budget := range args[2:] {
		out, void := tuneOnce(ts, budget)
		if tuned.void.Store(void); void {
			ts.Check(os.RemoveAll(ts.MkAbs(args[0]))) // what an earlier budget gave says nothing of this one
			continue
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out), 0o600))
		var r report
		ts.Check(json.Unmarshal([]byte(out), &r))
		found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), "v*", "decisions", "*.json"))
		ts.Check(err)
		saysSomething := func(v session.Verdict) bool {
			return v.Problem == "whole" && v.Why != measure.WhyBudget && !strings.HasSuffix(v.Why, "too few are left") &&
				!strings.HasPrefix(v.Why, "the A/A noise floor") && !strings.HasPrefix(v.Why, "the noise floor is unknown") && !strings.HasPrefix(v.Why, "A/A failed")
		}
		judged := slices.ContainsFunc(r.Verdicts, saysSomething)
		if tuned.judged.Store(judged); judged != (len(found) == 1) || judged && r.Cache.Written == 0 {
			ts.Fatalf("a verdict: %t; %d entries written, %d decisions found", judged, r.Cache.Written, len(found))
		}
		if judged {
			return
		}
	}
}

// tuneOnce is the report of one tune, or that its judge missed what was planted: the only refusal that
// a busy machine is to blame for.
func tuneOnce(ts *testscript.TestScript, budget string) (report string, void bool) {
	err := ts.Exec("tune", "--host-profile", "--preset", "smollm2-135m", "--budget", budget, "--allow-busy", "--no-progress", "--json")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == cli.ExitRefused && strings.Contains(ts.ReadFile("stderr"), measure.ErrVoid.Error()) {
		ts.Logf("budget %s: %s", budget, ts.ReadFile("stderr"))
		return "", true
	}
	ts.Check(err)
	return ts.ReadFile("stdout"), false
}

// store DIR prepares a store of made-up entries; store DIR PRESET adds a decision that holds on this
// host, store DIR PRESET soft one that wants revalidation; store DIR twins has two arms that are one code.
func storeCmd(ts *testscript.TestScript, _ bool, args []string) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := cache.Open(cache.Options{Dir: ts.MkAbs(args[0]), Now: func() time.Time { now = now.Add(time.Hour); return now }})
	defer st.Close()
	if len(args) == 1 {
		ts.Check(madeUp(st, 4))
		return
	}
	if args[1] == "twins" {
		ts.Check(errors.Join(madeUp(st, 4), madeUp(st, 8)))
		return
	}
	t, err := target(context.Background(), &cli.Shared{}, &app.ModelFlags{Preset: args[1], Weights: "w4a8"})
	ts.Check(err)
	defer t.Model.Close()
	key, err := t.DecisionKey()
	ts.Check(err)
	if len(args) > 2 {
		key.Host.Kernel = "1.2.3"
	}
	ts.Check(st.PutDecision(cache.Decision{Key: key, Artifacts: []string{"00"}}))
}

func madeUp(st *cache.Store, unroll int64) error {
	host := cache.HostKey{Arch: "amd64", CPU: "Maker 1 2", Features: kernel.NewFeatures("avx2", "fma"), Kernel: "6.1"}
	sources := cache.Sources{Engine: "e0", Backends: map[string]string{"avx2": "b0"}}
	d := cache.Decision{Key: cache.DecisionKey{Schema: cache.Schema, Weights: "w4a8", Phase: "decode+prefill", Context: 4096, CPUs: 2,
		Model: cache.ModelKey{Name: "tiny", Heads: 2, Classes: []cache.ClassKey{{Role: "down", N: 64, K: 128, Format: kernel.Asym(32), Count: 1}}},
		Host:  host, Sources: sources, Protocol: cache.Protocol}}
	p := kernel.Problem{Op: kernel.OpScale}
	c := kernel.Choice{Problem: p, Backend: "avx2", Config: kernel.Config{"unroll": unroll}}
	id := kernel.BackendID{Name: "avx2", Digest: "b0"}
	req := cache.NewRequest(c, id, host.Features)
	a := &kernel.Artifact{Kind: kernel.KindCode, Code: []byte{0xc3}, Entries: map[string]int{kernel.EntryMain: 0}, Key: kernel.ArtifactKey{
		Problem: p, Config: c.Config, LayoutVersion: kernel.LayoutVersion, ISA: []string{"avx2"}, ABI: kernel.ABILeaf, Backend: id}}
	d.Artifacts = []string{kernel.KeyDigest(req)}
	r := cache.Rule{Key: cache.RuleKey{Schema: cache.Schema, Weights: "w4a8", Arith: kernel.A8, Format: kernel.Asym(32), CPUs: 2, Host: host,
		Sources: sources, Protocol: cache.Protocol}, Layout: kernel.Layout{Lanes: 16, Cols: 1}}
	return errors.Join(st.PutArtifact(req, a, "tuned"), st.PutRule(r), st.PutDecision(d))
}
