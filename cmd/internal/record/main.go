// Command record measures a part of a kernel's space in situ, on the real model, and writes the
// samples down for search/replay: every configuration once in each sweep, in blocks that hold the
// default, in a new order each time.
//
//	go run ./cmd/internal/record -m 1 -out search/replay/testdata/decode.json.gz
//	go run ./cmd/internal/record -m 512 -sweeps 5 -values "chunk=0 mc=0,4 hint=1 ku=64,128 prefetch=0,1024" -out search/replay/testdata/prefill.json.gz
package main

import (
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/replay"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/lock"
	"github.com/tilewright/tilewright/tuner/runner"
)

type flags struct {
	preset, class, values, out string
	m, rows, sweeps, most      int
	limit                      time.Duration
	more                       bool
}

func main() {
	app.MaybeRun()
	app.MaybeServe()
	var f flags
	flag.StringVar(&f.preset, "preset", model.DefaultPreset, "model")
	flag.StringVar(&f.class, "role", "gate_up", "role of the matrices")
	flag.IntVar(&f.m, "m", 1, "rows: 1 for decode, 512 for prefill")
	flag.IntVar(&f.rows, "rows", 0, "tokens of a prefill pass that runs the kernels of -m; 0 for as many")
	flag.IntVar(&f.sweeps, "sweeps", 8, "samples of each configuration")
	flag.IntVar(&f.most, "most", 1000, "configurations at most; more are refused: narrow the space with -values")
	flag.StringVar(&f.values, "values", "", `values to keep, as "name=1,2 name=3"; other parameters keep all theirs`)
	flag.DurationVar(&f.limit, "limit", 170*time.Second, "no sweep that would end later is started")
	flag.StringVar(&f.out, "out", "", "file to write, gzipped JSON")
	flag.BoolVar(&f.more, "append", false, "add to the samples that the file holds, of the same space")
	flag.Parse()
	if err := record(context.Background(), f); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, f flags) error {
	l, err := lock.Acquire()
	if err != nil {
		return err
	}
	defer l.Release()
	r, err := newRig(ctx, f)
	if err != nil {
		return err
	}
	defer r.close()
	var arms []kernel.Config
	if err := search.Enumerate(r.space, func(c kernel.Config) bool {
		arms = append(arms, c)
		return len(arms) <= f.most
	}); err != nil {
		return err
	}
	if len(arms) > f.most {
		return fmt.Errorf("more than %d configurations: narrow the space with -values", f.most)
	}
	fmt.Fprintf(os.Stderr, "%s, M=%d: %d configurations\n", r.class, f.m, len(arms))
	var rec *replay.Recorder
	err = insitu.Run(ctx, r, []insitu.Search{{Class: insitu.Class{Name: r.class.String(), Layers: r.class.Layers},
		Run: func(src search.Source) error {
			rec = replay.NewRecorder(src, r.space, r.def.Config)
			return sweep(rec, r.def.Config, arms, len(r.class.Layers)-1, f)
		}}}, func() error { return nil })
	if err != nil {
		return err
	}
	if f.more {
		if err := prepend(f.out, &rec.Recording); err != nil {
			return err
		}
	}
	return write(f.out, &rec.Recording)
}

// prepend puts the samples of a file before those of r, whose blocks are numbered on from them.
func prepend(file string, r *replay.Recording) error {
	old, err := replay.Open(file)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(old.Space, r.Space) {
		return fmt.Errorf("%s holds another space", file)
	}
	n := 0
	for _, s := range old.Samples {
		n = max(n, s.Block+1)
	}
	for i := range r.Samples {
		r.Samples[i].Block += n
	}
	r.Samples = append(old.Samples, r.Samples...)
	return nil
}

// sweep measures all arms, in blocks of n beside the control.
func sweep(src search.Source, control kernel.Config, arms []kernel.Config, n int, f flags) error {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(f.m)))
	start, longest := time.Now(), time.Duration(0)
	for i := range f.sweeps {
		if time.Since(start)+longest > f.limit {
			break
		}
		begun := time.Now()
		rng.Shuffle(len(arms), func(i, k int) { arms[i], arms[k] = arms[k], arms[i] })
		for batch := range slices.Chunk(arms, n) {
			if _, err := src.Measure(append([]kernel.Config{control}, batch...), rng.Perm(len(batch)+1)); err != nil {
				return err
			}
		}
		longest = time.Since(begun)
		fmt.Fprintf(os.Stderr, "sweep %d in %.1f s\n", i+1, longest.Seconds())
	}
	return nil
}

func write(file string, r *replay.Recording) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	err = r.Encode(z)
	if e := z.Close(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// narrow keeps of a space the values that spec lists, and the defaults.
func narrow(s kernel.Space, spec string) (kernel.Space, error) {
	s.Params = slices.Clone(s.Params)
	for _, w := range strings.Fields(spec) {
		name, list, _ := strings.Cut(w, "=")
		i := slices.IndexFunc(s.Params, func(p kernel.Param) bool { return p.Name == name })
		if i < 0 {
			return s, fmt.Errorf("-values %s: the space has no parameter %q", w, name)
		}
		p := &s.Params[i]
		keep := map[int64]bool{p.Default: true}
		for _, v := range strings.Split(list, ",") {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || !slices.Contains(p.Values, n) {
				return s, fmt.Errorf("-values %s: %q is not one of %v", w, v, p.Values)
			}
			keep[n] = true
		}
		var values []int64
		var names []string
		for k, v := range p.Values {
			if keep[v] {
				values = append(values, v)
				if len(p.Names) > 0 {
					names = append(names, p.Names[k])
				}
			}
		}
		p.Values, p.Names = values, names
	}
	return s, s.Validate()
}

// test is the pass in which a tuning point of M rows is timed, as the screen does it.
func test(m, rows int) (t bench.Test, warm, repeat int) {
	if rows > 0 {
		m = rows
	}
	if m == 1 {
		return bench.Test{Gen: 1, Depth: 128}, 1, 2
	}
	return bench.Test{Prompt: m}, 0, 1
}

var _ insitu.Stepper = (*rig)(nil)

var _ runner.Planner = (*rig)(nil)
