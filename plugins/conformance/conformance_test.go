package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/avx512"
	"github.com/tilewright/tilewright/plugins/avxvnni"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/plugins/host"
	"github.com/tilewright/tilewright/plugins/sdk"
)

// TestMain lets the test binary serve the built-in backends.
func TestMain(m *testing.M) {
	sdk.MaybeServe(map[string]kernel.Backend{"generic": generic.New(""), "avx2": avx2.New(""), "avx512": avx512.New(""),
		"avxvnni": avxvnni.New("")})
	if os.Getenv(envWedge) != "" {
		wedge()
	}
	os.Exit(m.Run())
}

// envWedge makes the test binary a kit whose checking process never comes back.
const envWedge = "TILEWRIGHT_TEST_WEDGE"

func wedge() {
	a := &kernel.Artifact{Key: kernel.ArtifactKey{Problem: kernel.Problem{Op: kernel.OpScale}, ABI: kernel.ABILeaf},
		Kind: kernel.KindCode, Code: []byte{0xeb, 0xfe}, Entries: map[string]int{kernel.EntryMain: 0}} // jmp to itself
	runtime.LockOSThread()
	var c checker
	if err := c.start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.cmd.Process.Pid)
	c.check(context.Background(), a)
}

func TestCheckingProcessDiesWithTheKit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("amd64 only")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envWedge+"=1")
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // into the loop; earlier, the end of its input would end it
	cmd.Process.Kill()
	cmd.Wait()
	for range 200 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d outlived the kit", pid)
}

// features are what /proc/cpuinfo lists.
func features(t *testing.T) kernel.Features {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "flags" {
			return kernel.NewFeatures(strings.Fields(v)...)
		}
	}
	return nil
}

func TestBuiltIns(t *testing.T) {
	o := Options{Features: features(t), Problems: 4, Configs: 1}
	for _, name := range []string{"generic", "avx2", "avxvnni", "avx512"} {
		t.Run(name, func(t *testing.T) {
			if name != "generic" && runtime.GOARCH != "amd64" {
				t.Skip("amd64 only")
			}
			p, err := host.Open(t.Context(), host.Builtin(name, "digest"), host.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			r := Run(t.Context(), p, o)
			var b strings.Builder
			r.Write(&b)
			t.Log(b.String())
			if !r.Passed {
				t.Error("failed")
			}
		})
	}
}

// liar is the portable backend with one fault.
type liar struct {
	kernel.Backend
	fault string
	calls *int
}

func (l liar) Manifest(ctx context.Context) (kernel.Manifest, error) {
	m, err := l.Backend.Manifest(ctx)
	switch l.fault {
	case "manifest":
		m.Name = "Not A Name"
	case "ops":
		m.Ops = append(m.Ops, "dream")
	case "first op":
		m.Ops, m.Requires = append([]kernel.Op{"dream"}, m.Ops...), []string{"sse2"}
	case "panic code":
		m.Arch, m.Ops = runtime.GOARCH, []kernel.Op{kernel.OpScale}
	}
	return m, err
}

func (l liar) Space(ctx context.Context, h kernel.Features, p kernel.Problem) (kernel.Space, error) {
	s, err := l.Backend.Space(ctx, h, p)
	*l.calls++
	switch l.fault {
	case "anything goes":
		return kernel.Space{}, nil
	case "shuffles":
		s.Version = fmt.Sprint(*l.calls)
	case "inert":
		s.Params = append(s.Params, kernel.Param{Name: "placebo", Doc: "nothing", Values: []int64{0, 1}})
	case "garbage":
		s.Params = append(s.Params, kernel.Param{Name: "a b", Values: []int64{1}, Default: 2})
	}
	return s, err
}

func (l liar) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	*l.calls++
	if l.fault == "mutates" {
		for n := range c {
			c[n]++
			break
		}
	}
	inner := c.Clone()
	delete(inner, "placebo")
	a, err := l.Backend.Emit(ctx, h, p, inner)
	if err != nil {
		if l.fault == "opaque" {
			err = errors.New("no")
		}
		return nil, err
	}
	switch l.fault {
	case "no work":
		a.Exec = kernel.Exec{}
	case "stateful":
		a.Exec.Chunk = *l.calls
	case "cache":
		a.Exec.Chunk = int(h.Cache(2) >> 20)
	case "cache in key":
		a.Key.ISA = h
	case "wrong key":
		a.Key.Config = kernel.Config{"z": 1}
	case "wrong isa":
		a.Key.ISA = []string{"avx9000"}
	case "panic code": // ud2
		a.Kind, a.Key.ABI, a.Code, a.Entries = kernel.KindCode, kernel.ABILeaf, []byte{0x0f, 0x0b}, map[string]int{"main": 0}
	}
	return a, nil
}

func TestFaultsAreFound(t *testing.T) {
	for fault, check := range map[string]string{
		"manifest": checkManifest, "ops": checkOps, "first op": checkOps, "anything goes": checkRefuse, "shuffles": checkSpace, "garbage": checkSpace,
		"mutates": checkInputs, "opaque": checkConfig, "no work": checkArtifact, "stateful": checkSame, "cache": checkCaches, "cache in key": checkCaches, "wrong key": checkArtifact,
		"wrong isa": checkArtifact, "panic code": checkNumerics, "none": "",
	} {
		t.Run(fault, func(t *testing.T) {
			if fault == "panic code" && runtime.GOARCH != "amd64" {
				t.Skip("amd64 only")
			}
			o := Options{Problems: 2, Configs: 1, Emission: fault != "panic code", Features: features(t)}
			r := Run(t.Context(), liar{generic.New(""), fault, new(int)}, o)
			for _, c := range r.Checks {
				if c.Name == check && c.Status == Fail {
					return
				}
			}
			if check != "" || !r.Passed {
				var b strings.Builder
				r.Write(&b)
				t.Errorf("want %q to fail:\n%s", check, b.String())
			}
		})
	}
}

// deaf ignores its parameter.
type deaf struct{ kernel.Backend }

func (deaf) Space(_ context.Context, _ kernel.Features, p kernel.Problem) (kernel.Space, error) {
	if p.Op != kernel.OpScale {
		return kernel.Space{}, kernel.ErrUnsupported
	}
	return kernel.Space{Params: []kernel.Param{{Name: "x", Doc: "nothing", Values: []int64{0, 1}}}}, nil
}

func (d deaf) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	s, err := d.Space(ctx, h, p)
	if err == nil {
		err = s.Check(c)
	}
	if err != nil {
		return nil, err
	}
	return &kernel.Artifact{Key: kernel.ArtifactKey{Problem: p, Config: c, LayoutVersion: kernel.LayoutVersion, ABI: kernel.ABILeaf,
		Backend: kernel.BackendID{Name: "deaf"}}, Kind: kernel.KindCode, Code: []byte{0xc3}, Entries: map[string]int{"main": 0}}, nil
}

func (deaf) Manifest(context.Context) (kernel.Manifest, error) {
	return kernel.Manifest{Name: "deaf", Arch: "amd64", Ops: []kernel.Op{kernel.OpScale}}, nil
}

func (deaf) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	return nil, kernel.ErrUnsupported
}

func TestInertParameterIsReported(t *testing.T) {
	r := Run(t.Context(), deaf{}, Options{Emission: true})
	for _, c := range r.Checks {
		if c.Name == checkInert && c.Status == Warn && strings.Contains(c.Detail[0], "scale.x") {
			return
		}
	}
	t.Errorf("%+v", r)
}

func TestBinaryThatDoesNotStart(t *testing.T) {
	if r := RunBinary(t.Context(), "/nonexistent/tilewright-backend-x", Options{}); r.Passed || r.Checks[0].Name != "starts" {
		t.Errorf("%+v", r)
	}
}
