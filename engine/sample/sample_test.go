package sample

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

var nan = float32(math.NaN())

func TestArgmax(t *testing.T) {
	for _, c := range []struct {
		x    []float32
		want int
	}{
		{[]float32{1, 3, 2, 3}, 1}, {[]float32{nan, -5, nan}, 1}, {[]float32{nan}, 0}, {nil, 0},
		{[]float32{float32(math.Inf(-1)), -1}, 1},
	} {
		if got := Argmax(c.x); got != c.want {
			t.Errorf("Argmax(%v) = %d, want %d", c.x, got, c.want)
		}
	}
}

func TestSamplerStaysWithinItsCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-9, 9), 1, 60).Draw(t, "logits")
		o := Options{Temperature: rapid.Float64Range(0.05, 3).Draw(t, "temp"),
			TopK: rapid.IntRange(0, 70).Draw(t, "k"), TopP: rapid.Float64Range(0, 1).Draw(t, "p"),
			Seed: rapid.Uint64().Draw(t, "seed")}
		a, b := New(o), New(o)
		for range 5 {
			id := a.Next(logits)
			if other := b.Next(logits); id != other {
				t.Fatalf("same seed, tokens %d and %d", id, other)
			}
			better := 0
			for _, v := range logits {
				if v > logits[id] {
					better++
				}
			}
			if o.TopK > 0 && better >= o.TopK {
				t.Fatalf("token %d has %d better ones, top-k is %d", id, better, o.TopK)
			}
		}
	})
}

func TestSamplerFrequencies(t *testing.T) {
	s := New(Options{Temperature: 1, Seed: 7})
	logits := []float32{float32(math.Log(0.7)), float32(math.Log(0.2)), float32(math.Log(0.1)), nan}
	var n [4]int
	const draws = 20000
	for range draws {
		n[s.Next(logits)]++
	}
	for i, p := range []float64{0.7, 0.2, 0.1, 0} {
		if got := float64(n[i]) / draws; math.Abs(got-p) > 0.015 {
			t.Errorf("token %d drawn with frequency %.3f, probability is %.1f", i, got, p)
		}
	}
	s = New(Options{Temperature: 1, TopP: 0.65, Seed: 7})
	for range 100 {
		if id := s.Next(logits); id != 0 {
			t.Fatalf("top-p 0.65 drew token %d", id)
		}
	}
	if id := New(Options{Temperature: 1}).Next([]float32{nan, nan}); id != 0 {
		t.Errorf("all NaN drew token %d", id)
	}
}

// TestArgmaxScans: the first of the largest wherever it stands, whatever the length.
func TestArgmaxScans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := []float32{float32(math.NaN()), float32(math.Inf(-1)), -2, -1.5, -1, float32(math.Copysign(0, -1)), 0, 1, 2}
		values = values[:rapid.IntRange(1, len(values)).Draw(t, "values")] // all negative too
		x := rapid.SliceOfN(rapid.SampledFrom(values), 1, 700).Draw(t, "x")
		best, want := float32(math.Inf(-1)), 0
		for i, v := range x {
			if v > best {
				best, want = v, i
			}
		}
		if got := Argmax(x); got != want {
			t.Fatalf("Argmax = %d, want %d", got, want)
		}
	})
}

func BenchmarkArgmax(b *testing.B) {
	x := make([]float32, 131072)
	for i := range x {
		x[i] = float32(i * 7919 % 131071)
	}
	for b.Loop() {
		Argmax(x)
	}
}
