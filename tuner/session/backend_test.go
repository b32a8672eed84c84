package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/plugins/host"
	"github.com/tilewright/tilewright/tuner/resolve"
)

// mortal is a backend that dies of what it is told to die of.
type mortal struct {
	kernel.Backend
	emit, space func(p kernel.Problem) bool
}

func (m mortal) death(call string, p kernel.Problem) error {
	return &host.ErrBackendCrashed{Backend: "mortal", Call: call, Reason: host.ReasonPanic, Problem: p}
}

func (m mortal) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	if m.emit != nil && m.emit(p) {
		return nil, m.death("emit", p)
	}
	return m.Backend.Emit(ctx, h, p, c)
}

func (m mortal) Space(ctx context.Context, h kernel.Features, p kernel.Problem) (kernel.Space, error) {
	if m.space != nil && m.space(p) {
		return kernel.Space{}, m.death("space", p)
	}
	return m.Backend.Space(ctx, h, p)
}

// withMortal puts a mortal backend before the portable one.
func withMortal(m mortal) func(*Options) {
	return func(o *Options) {
		onPortable(o)
		m.Backend = generic.New("m0")
		o.Suite.Backends["mortal"], o.Suite.Order = m, []string{"mortal", "generic"}
		o.Target.Backends["mortal"] = resolve.BackendInfo{Digest: "m0", Version: "1"}
	}
}

// What a backend dies of falls to the next one, and the report says so, once; what it does it keeps, and
// what it did once stays the default should it die of it later.
func TestProblemFallsToTheNextBackend(t *testing.T) {
	old := false
	u := tinyTune(t, withMortal(mortal{
		emit:  func(p kernel.Problem) bool { return p.M == 512 || old },
		space: func(p kernel.Problem) bool { return p.M == 64 },
	}))
	l, err := u.lab.plan.Layout(t.Context(), u.classes[0])
	if err != nil {
		t.Fatal(err)
	}
	served := func(m int) string {
		c, err := u.lab.plan.Choice(t.Context(), u.classes[0].Problem(model.W4A8, m, l))
		if err == nil {
			_, err = u.lab.plan.Artifact(t.Context(), c)
		}
		if err != nil {
			return err.Error()
		}
		return c.Backend
	}
	for range 2 {
		for m, want := range map[int]string{1: "mortal", 64: "generic", 512: "generic"} {
			if got := served(m); got != want {
				t.Errorf("M=%d is served by %s, want %s", m, got, want)
			}
		}
		old = true
	}
	if len(u.res.Failures) != 2 {
		t.Errorf("reported %+v", u.res.Failures)
	}
	for _, f := range u.res.Failures {
		if f.Backend != "mortal" || f.Class != classCrash || !strings.Contains(f.Detail, "crashed") {
			t.Errorf("reported %+v", f)
		}
	}
	if _, err := u.space(t.Context(), kernel.Choice{Backend: "mortal", Problem: kernel.Problem{Op: kernel.OpLinear, M: 64}}); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("a space that kills is searched: %v", err)
	}
}

// survivor is a backend that was stopped from outside, and asked again.
type survivor struct {
	kernel.Backend
	deaths []error
}

func (s *survivor) Outlived() []error { return s.deaths }

// A hang is a death like any other: of a candidate it is a failure of that candidate, one that was outlived
// loses nothing, and the report holds both; what died before this tune is none of its business.
func TestHangsAreReported(t *testing.T) {
	hang := &host.ErrBackendCrashed{Backend: "generic", Call: "emit", Reason: host.ReasonHang, Config: kernel.Config{"chunk": 2}}
	s := &survivor{deaths: []error{hang}}
	u := tinyTune(t, func(o *Options) {
		onPortable(o)
		s.Backend = wrappedErr{o.Suite.Backends["generic"], hang}
		o.Suite.Backends["generic"] = s
	})
	a, as := arenaOf(t, u)
	if err := u.vet(t.Context(), a.defaults[as[0].Class], kernel.Config{"mr": 1, "chunk": 8}); classOf(err) != classCrash {
		t.Errorf("a hang over a candidate is %s: %v", classOf(err), err)
	}
	s.deaths = append(s.deaths, hang, &host.StartError{Backend: "generic", Why: "silence", Reason: host.ReasonHang})
	for range 2 { // told once
		u.result()
	}
	if f := u.res.Failures; len(f) != 2 || f[0].Config != "chunk=2" || f[0].Class != classCrash || !strings.Contains(f[0].Detail, "timeout") ||
		!strings.Contains(f[1].Detail, "asked the same") {
		t.Errorf("%+v", f)
	}
}

// wrappedErr is a backend that fails on every configuration of chunk=8.
type wrappedErr struct {
	kernel.Backend
	err error
}

func (w wrappedErr) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	if c["chunk"] == 8 {
		return nil, w.err
	}
	return w.Backend.Emit(ctx, h, p, c)
}

// A tune whose backend dies of every often thing that it is asked comes to its end like any other.
func TestTuneOutlivesItsBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of a whole tune")
	}
	var n atomic.Int64
	often := func(kernel.Problem) bool { return n.Add(1)%23 == 7 }
	o, err := tinyOptions(t.TempDir(), 12*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Store.Close()
	if fast := o.Suite.Backends["avx2"]; fast != nil {
		o.Suite.Backends["avx2"] = mortal{fast, often, often}
	} else {
		withMortal(mortal{emit: often, space: often})(&o)
	}
	res, err := Tune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	whole := ""
	for _, v := range res.Verdicts {
		if v.Problem == "whole" {
			whole += fmt.Sprint(v.Phase, " ")
		}
	}
	if whole != "decode prefill " || len(res.Failures) == 0 || res.Failures[0].Class != classCrash {
		t.Errorf("judged %s; failures %+v", whole, res.Failures)
	}
}
