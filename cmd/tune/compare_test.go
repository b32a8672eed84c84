package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tilewright/tilewright/tuner/measure/grid"
)

func TestBenchArgs(t *testing.T) {
	got := benchArgs(map[string]string{"preset": "tiny", "p": "512", "kv-type": "f16"}, map[string]string{"kv-type": "f32"})
	want := []string{"bench", "--json", "--kv-type=f32", "-p", "512", "--preset=tiny"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := benchArgs(nil, nil); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestEngineEvidence(t *testing.T) {
	var doc any
	text := `{"results":[{"test":"tg128","artifacts":{"b":3,"a":1},"weights_bytes":1e6,"n_threads":2,"weights":"w4a8"}]}`
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	got := engineEvidence(doc, nil)
	if got["tg128 artifacts"] != "a b" || got["tg128 n_threads"] != "2" {
		t.Errorf("%v", got)
	}
	for _, hostile := range []any{nil, "x", map[string]any{"results": "x"}, map[string]any{"results": []any{1}}} {
		_ = engineEvidence(hostile, nil)
	}
}

func TestYAMLKeepsTextsAsWritten(t *testing.T) {
	b, err := yamlToJSON([]byte("passes: 3\narms:\n- {name: a, env: {V: 1.10, W: 010, X: true}, command: [p, 1e3]}\nbench: {p: 512}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"arms":[{"command":["p","1e3"],"env":{"V":"1.10","W":"010","X":"true"},"name":"a"}],"bench":{"p":"512"},"passes":3}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Error(diff)
	}
}

// What an interrupted comparison started is gone with it.
func TestInterruptedComparison(t *testing.T) {
	spec, err := grid.ParseSpec(strings.NewReader(`{"schema":1,"control":"a","metrics":[{"name":"v","better":"lower"}],
		"arms":[{"name":"a","command":["arm","sleep=1h"]},{"name":"b","command":["arm","sleep=1h"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ps, err := findPrograms(spec)
	if err != nil {
		t.Fatal(err)
	}
	q, err := keepQuiet(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	defer q.release()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := runGrid(ctx, spec, ps, q); err != context.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func TestExchangedExecutableIsNoticed(t *testing.T) {
	file := t.TempDir() + "/x"
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	// The arm is the executable, or a script that it runs, or a file that a flag names.
	for _, argv := range [][]string{{file}, {"/bin/sh", file}, {"/bin/sh", "--model=" + file}} {
		write("one")
		used, err := hashes{}.filesOf(argv[0], argv[1:])
		if err != nil {
			t.Fatal(err)
		}
		g := &program{path: argv[0], files: used, runs: 5, wrote: map[string]int{file: 1}}
		ps := programs{"a": g}
		if _, err := ps.unchanged(); err != nil {
			t.Error(err)
		}
		write("two")
		if _, err := ps.unchanged(); err == nil || !strings.Contains(err.Error(), "two builds") || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", argv, err)
		}
		// What most runs write is an output, unless it is what runs.
		g.wrote[file] = 4
		if notes, err := ps.unchanged(); (err == nil) != (argv[0] != file) || len(notes) != 1 && err == nil {
			t.Errorf("%q: %q, %v", argv, notes, err)
		}
	}
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte("schema: 1\narms:\n- {name: a, command: [x]}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if j, err := yamlToJSON(b); err == nil && !json.Valid(j) {
			t.Errorf("%q became %q", b, j)
		}
	})
}
