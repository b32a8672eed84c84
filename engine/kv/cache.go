// Package kv holds keys and values of one sequence.
package kv

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// Cache stores, for each layer and KV head, keys as [block][Dim][16] and values as [position][Dim].
// Memory is reserved at once and taken page by page as positions are written.
type Cache struct {
	Layers, Heads, Dim int
	Context            int // positions, a multiple of kernel.KVBlock
	Elem               kernel.ElemType

	block *mem.Block
	side  int // bytes of the keys, or of the values, of one head
}

// Size is the memory that a cache can come to.
func Size(layers, heads, dim, context int, elem kernel.ElemType) int {
	return 2 * layers * heads * roundUp(context) * dim * elem.Bytes()
}

// New reserves a cache for at least context positions.
func New(layers, heads, dim, context int, elem kernel.ElemType) (*Cache, error) {
	if context < 1 {
		return nil, fmt.Errorf("a context of %d positions", context)
	}
	b, err := mem.New(Size(layers, heads, dim, context, elem), false)
	if err != nil {
		return nil, fmt.Errorf("KV cache of %d positions: %w", context, err)
	}
	c := &Cache{Layers: layers, Heads: heads, Dim: dim, Context: roundUp(context), Elem: elem, block: b}
	c.side = c.Context * dim * elem.Bytes()
	return c, nil
}

func roundUp(n int) int { return (n + kernel.KVBlock - 1) / kernel.KVBlock * kernel.KVBlock }

// Close frees the cache.
func (c *Cache) Close() { c.block.Free() }

// Reset gives the memory back; all entries read as zero.
func (c *Cache) Reset() { c.block.Drop() }

// Repeat fills positions from have on, up to want, with copies of the first have positions, a multiple
// of kernel.KVBlock.
func (c *Cache) Repeat(have, want int) {
	perPos := c.Dim * c.Elem.Bytes()
	from, to := have*perPos, min(roundUp(want), c.Context)*perPos
	all := c.block.Bytes()
	for at := 0; at < len(all); at += c.side {
		side := all[at : at+c.side]
		for n := from; n < to; {
			n += copy(side[n:to], side[:n])
		}
	}
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
