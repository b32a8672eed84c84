// Package kv holds keys and values of one sequence.
package kv

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// Cache stores, for each layer and KV head, keys as [block][Dim][16] and values as [position][Dim].
// Memory is reserved at once and taken page by page as positions are written; layers with a sliding
// window give pages back as positions fall behind (Forget).
type Cache struct {
	Layers, Heads, Dim int
	Context            int // positions, a multiple of kernel.KVBlock
	Elem               kernel.ElemType
	Keep               int // positions behind a window that stay, so that a sequence can be cut back

	windows []int // by layer, how many positions are seen, 0 for all
	gone    []int // by layer, how many positions were given up
	block   *mem.Block
	side    int // bytes of the keys, or of the values, of one head
}

// Size is the memory that a cache can come to.
func Size(layers, heads, dim, context int, elem kernel.ElemType) int {
	return 2 * layers * heads * roundUp(context) * dim * elem.Bytes()
}

// New reserves a cache for at least context positions, given how many each layer sees (0 for all).
func New(windows []int, heads, dim, context int, elem kernel.ElemType) (*Cache, error) {
	layers := len(windows)
	if context < 1 {
		return nil, fmt.Errorf("a context of %d positions", context)
	}
	b, err := mem.New(Size(layers, heads, dim, context, elem), false)
	if err != nil {
		return nil, fmt.Errorf("KV cache of %d positions: %w", context, err)
	}
	c := &Cache{Layers: layers, Heads: heads, Dim: dim, Context: roundUp(context), Elem: elem, Keep: 1024,
		windows: windows, gone: make([]int, layers), block: b}
	c.side = c.Context * dim * elem.Bytes()
	return c, nil
}

func roundUp(n int) int { return (n + kernel.KVBlock - 1) / kernel.KVBlock * kernel.KVBlock }

// Close frees the cache.
func (c *Cache) Close() { c.block.Free() }

// Reset gives the memory back; all entries read as zero.
func (c *Cache) Reset() {
	c.block.Drop()
	clear(c.gone)
}

// sides calls f with the keys and with the values of every head.
func (c *Cache) sides(f func(layer int, side []byte)) {
	all := c.block.Bytes()
	for i := range 2 * c.Layers * c.Heads {
		f(i/2/c.Heads, all[i*c.side:(i+1)*c.side])
	}
}

// Repeat fills positions from have on, up to want, with copies of the first have positions, a multiple
// of kernel.KVBlock.
func (c *Cache) Repeat(have, want int) {
	perPos := c.Dim * c.Elem.Bytes()
	from, to := have*perPos, min(roundUp(want), c.Context)*perPos
	c.sides(func(layer int, side []byte) {
		for n := from; n < to; {
			n += copy(side[n:to], side[:n])
		}
		mem.DropPages(side[:c.behind(layer, want)*perPos])
	})
	c.Forget(want)
}

// behind is how many positions of a sequence of n can be given up in a layer: those further behind its
// window than Keep, some at a time.
func (c *Cache) behind(layer, n int) int {
	w := c.windows[layer]
	if w == 0 {
		return 0
	}
	step := max(kernel.KVBlock, c.Keep/4)
	return max(c.gone[layer], (n-w-c.Keep)/step*step)
}

// Forget gives the memory of positions back that a sequence of n positions will not see again.
func (c *Cache) Forget(n int) {
	perPos := c.Dim * c.Elem.Bytes()
	c.sides(func(layer int, side []byte) {
		if k := c.behind(layer, n); k > c.gone[layer] {
			mem.DropPages(side[:k*perPos])
		}
	})
	for l := range c.gone {
		c.gone[l] = c.behind(l, n)
	}
}

// Rewind prepares for a sequence cut back to n positions and returns how many of them it can go on from:
// n, or 0 if some that the next one would see were given up.
func (c *Cache) Rewind(n int) int {
	for l, w := range c.windows {
		if c.gone[l] > 0 && n-w+1 < c.gone[l] {
			clear(c.gone)
			return 0
		}
	}
	return n
}

// HeadStride is the distance between the same entry of two KV heads, in bytes.
func (c *Cache) HeadStride() int { return 2 * c.side }

// K is the address of element 0 of the key at a position; KStride apart lie the next elements.
func (c *Cache) K(layer, head, pos int) unsafe.Pointer {
	return unsafe.Add(c.head(layer, head), (pos/kernel.KVBlock*c.Dim*kernel.KVBlock+pos%kernel.KVBlock)*c.Elem.Bytes())
}

// KStride is the distance between elements of a key, in bytes.
func (c *Cache) KStride() int { return kernel.KVBlock * c.Elem.Bytes() }

// V is the address of the value at a position; its elements are adjacent.
func (c *Cache) V(layer, head, pos int) unsafe.Pointer {
	return unsafe.Add(c.head(layer, head), c.side+pos*c.Dim*c.Elem.Bytes())
}

func (c *Cache) head(layer, head int) unsafe.Pointer {
	return unsafe.Add(mem.Addr(c.block.Bytes()), (layer*c.Heads+head)*2*c.side)
}
