package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

type named string

func (n named) Manifest(context.Context) (kernel.Manifest, error) {
	return kernel.Manifest{Name: string(n), Ops: []kernel.Op{kernel.OpScale}}, nil
}

func (named) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	panic("unreachable in these tests")
}

func (named) Space(_ context.Context, _ kernel.Features, p kernel.Problem) (kernel.Space, error) {
	return kernel.Space{}, kernel.ErrUnsupported
}

func (named) Emit(context.Context, kernel.Features, kernel.Problem, kernel.Config) (*kernel.Artifact, error) {
	return nil, kernel.ErrUnsupported
}

func TestRunByHand(t *testing.T) {
	for _, c := range []struct {
		name, serve    string
		args           []string
		backends       []kernel.Backend
		code           int
		stdout, stderr string
	}{
		{"describe the first", "", []string{"describe"}, []kernel.Backend{named("a"), named("b")}, 0, `"name": "a"`, ""},
		{"describe the one asked", "b", []string{"describe"}, []kernel.Backend{named("a"), named("b")}, 0, `"name": "b"`, ""},
		{"no such backend", "c", []string{"describe"}, []kernel.Backend{named("a"), named("b")}, 1, "", "it has a, b"},
		{"a bad manifest", "", []string{"describe"}, []kernel.Backend{named("Not A Name")}, 1, "", "want up to 32"},
		{"no arguments", "", nil, []kernel.Backend{named("a")}, 2, "", "This is a Tilewright backend"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(wire.EnvServe, c.serve)
			var out, errs strings.Builder
			code := run(c.args, c.backends, &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.stdout) || !strings.Contains(errs.String(), c.stderr) {
				t.Errorf("status %d\nstdout: %s\nstderr: %s", code, out.String(), errs.String())
			}
		})
	}
}

func TestDebugSaysThatItCannotServe(t *testing.T) {
	t.Setenv("TMPDIR", "/nonexistent")
	var errs strings.Builder
	if code := run([]string{"--debug"}, []kernel.Backend{named("a")}, io.Discard, &errs); code != 1 || !strings.Contains(errs.String(), "TMPDIR") {
		t.Errorf("status %d: %s", code, errs.String())
	}
}

func TestErrorsBecomeStatuses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{kernel.ErrUnsupported, codes.FailedPrecondition}, {kernel.ErrConfig, codes.InvalidArgument},
		{context.DeadlineExceeded, codes.DeadlineExceeded}, {errors.New("other"), codes.Unknown}, {nil, codes.OK},
	} {
		err := c.err
		answer(&err)
		if got := status.Code(err); got != c.want {
			t.Errorf("%v became %v, want %v", c.err, got, c.want)
		}
	}
	err := func() (err error) {
		defer answer(&err)
		panic(strings.Repeat("x", 1<<20))
	}()
	if status.Code(err) != codes.Aborted || len(err.Error()) > 8<<10 {
		t.Errorf("a panic became %.100v of %d bytes", err, len(err.Error()))
	}
}

func TestLogLinesAreWhatHostsRead(t *testing.T) {
	var b strings.Builder
	logger(&b).Warn("tables are slow", "n", 3)
	var m map[string]any
	if err := json.Unmarshal([]byte(b.String()), &m); err != nil {
		t.Fatal(err)
	}
	if m["@message"] != "tables are slow" || m["@level"] != "warn" || m["n"] != 3.0 || m["@timestamp"] == nil {
		t.Errorf("%s", b.String())
	}
}
