package kv

import (
	"math"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

func TestTileBlocks(t *testing.T) {
	for _, c := range []struct{ pos, tokens, window, first, last int }{
		{0, 1, 0, 0, 1}, {15, 1, 0, 0, 1}, {16, 1, 0, 0, 2}, {10, 30, 0, 0, 3},
		{100, 1, 16, 5, 7}, {95, 1, 16, 5, 6}, {94, 1, 16, 4, 6}, {100, 20, 1000, 0, 8},
	} {
		tile := Tile{Pos: c.pos, Tokens: c.tokens, Window: c.window}
		if first, last := tile.Blocks(); first != c.first || last != c.last {
			t.Errorf("%+v: blocks %d to %d", c, first, last)
		}
	}
}

func TestLimits(t *testing.T) {
	a, err := NewAttender(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.limits(&Tile{Pos: 20, Tokens: 1, Rows: 4, Group: 2, Window: 8}, 16, 16)
	want := [][2]int32{{0, 5}, {0, 5}, {0, 0}, {0, 0}}
	for r, w := range want {
		if a.lo[r] != w[0] || a.hi[r] != w[1] {
			t.Errorf("row %d sees %d to %d, want %v", r, a.lo[r], a.hi[r], w)
		}
	}
	a.limits(&Tile{Pos: 20, Tokens: 2, Rows: 4, Group: 2, Window: 8}, 0, 16)
	if a.lo[0] != 13 || a.hi[0] != 16 || a.lo[2] != 14 || a.hi[3] != 16 {
		t.Errorf("lo %v, hi %v", a.lo, a.hi)
	}
}

// TestMergeIsSoftmaxOverAll: two partial states merge to what one over all positions would be, empty
// ones included.
func TestMergeIsSoftmaxOverAll(t *testing.T) {
	scores, values := []float32{1, -3, 2.5, 0}, []float32{10, 20, 30, 40}
	state := func(idx ...int) Partial {
		p := Partial{Max: []float32{float32(math.Inf(-1))}, Sum: make([]float32, 1), Acc: make([]float32, 1)}
		for _, i := range idx {
			p.Max[0] = max(p.Max[0], scores[i])
		}
		for _, i := range idx {
			e := float32(math.Exp(float64(scores[i] - p.Max[0])))
			p.Sum[0] += e
			p.Acc[0] += e * values[i]
		}
		return p
	}
	want := state(0, 1, 2, 3)
	for _, parts := range [][]Partial{{state(0, 1), state(2, 3)}, {state(), state(2), state(0, 3), state(1)}, {state(0, 1, 2, 3), state()}} {
		p := parts[0]
		for _, q := range parts[1:] {
			p.Merge(q)
		}
		if d := p.Acc[0]/p.Sum[0] - want.Acc[0]/want.Sum[0]; !(math.Abs(float64(d)) < 1e-5) {
			t.Errorf("merged to %v, want %v", p.Acc[0]/p.Sum[0], want.Acc[0]/want.Sum[0])
		}
	}
}

func TestCacheAddresses(t *testing.T) {
	c, err := New(make([]int, 2), 3, 8, 40, kernel.ElemF16)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Context != 48 || Size(2, 3, 8, 40, kernel.ElemF16) != 2*2*3*48*8*2 {
		t.Errorf("context %d, size %d", c.Context, Size(2, 3, 8, 40, kernel.ElemF16))
	}
	seen := map[uintptr]bool{}
	for l := range 2 {
		for h := range 3 {
			for p := range 48 {
				for d := range 8 {
					k := uintptr(c.K(l, h, p)) + uintptr(d*c.KStride())
					v := uintptr(c.V(l, h, p)) + uintptr(d*2)
					if seen[k] || seen[v] || k == v {
						t.Fatalf("layer %d, head %d, position %d, element %d overlaps another", l, h, p, d)
					}
					seen[k], seen[v] = true, true
				}
			}
		}
	}
	if _, err := New([]int{0}, 1, 8, 0, kernel.ElemF16); err == nil {
		t.Error("an empty cache was made")
	}
}

func TestRopeTable(t *testing.T) {
	r := model.NewRope(1e4, 8)
	r.Factor = 1.5
	table, err := NewRopeTable(r, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	table.Reach(1)
	table.Reach(100)
	for _, pos := range []int{0, 1, 63, 64, 99} {
		cos, sin, _ := table.At(pos)
		for i, f := range r.Freqs {
			c, s := *(*float32)(unsafe.Add(cos, 4*i)), *(*float32)(unsafe.Add(sin, 4*i))
			if math.Abs(float64(c)-1.5*math.Cos(float64(pos)*f)) > 1e-6 || math.Abs(float64(s)-1.5*math.Sin(float64(pos)*f)) > 1e-6 {
				t.Errorf("position %d, pair %d: %v, %v", pos, i, c, s)
			}
		}
	}
}

func TestRepeat(t *testing.T) {
	c, err := New(make([]int, 2), 2, 8, 96, kernel.ElemF16)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	elem := func(p unsafe.Pointer) *uint16 { return (*uint16)(p) }
	for l := range 2 {
		for h := range 2 {
			for p := range 32 {
				*elem(c.K(l, h, p)), *elem(c.V(l, h, p)) = uint16(1000*l+100*h+p), uint16(5000+1000*l+100*h+p)
			}
		}
	}
	c.Repeat(32, 75)
	for l := range 2 {
		for h := range 2 {
			for p := range 96 {
				want := uint16(1000*l + 100*h + p%32)
				k, v := *elem(c.K(l, h, p)), *elem(c.V(l, h, p))
				if p < 75 && (k != want || v != 5000+want) || p >= 80 && (k != 0 || v != 0) {
					t.Fatalf("layer %d, head %d, position %d: %d and %d", l, h, p, k, v)
				}
			}
		}
	}
}

// TestForget: what a sliding layer will not see again reads as zero, all else stays.
func TestForget(t *testing.T) {
	const window, heads, dim, n = 64, 2, 64, 4000
	c, err := New([]int{0, window}, heads, dim, 4096, kernel.ElemF16)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := func(l, h, p int) [2]*uint16 { return [2]*uint16{(*uint16)(c.K(l, h, p)), (*uint16)(c.V(l, h, p))} }
	fill := func() {
		for l := range 2 {
			for h := range heads {
				for p := range n {
					for _, e := range at(l, h, p) {
						*e = 1
					}
				}
			}
		}
	}
	fill()
	check := func(gone int) {
		t.Helper()
		for l := range 2 {
			for h := range heads {
				for p := range n {
					for _, e := range at(l, h, p) {
						if seen := l == 0 || p >= gone; seen && *e != 1 || !seen && p < gone-32 && *e != 0 {
							t.Fatalf("layer %d, head %d, position %d reads %d, %d are gone", l, h, p, *e, gone)
						}
					}
				}
			}
		}
	}
	c.Forget(window + c.Keep)
	check(0)
	c.Forget(n)
	gone := (n - window - c.Keep) / 256 * 256
	check(gone)
	if c.Rewind(n-c.Keep) != n-c.Keep || c.Rewind(gone+window-1) != gone+window-1 || c.Rewind(n-100) != n-100 {
		t.Error("a sequence cannot be cut back to where all is there")
	}
	if c.Rewind(gone+window-2) != 0 {
		t.Error("a sequence was cut back to where positions are missing")
	}
	fill()
	check(0)
	c.Reset()
	fill()
	c.Repeat(64, n)
	check(gone)
}
