// Package gguftest helps tests that read checkpoints: it finds the shared folder of models and
// builds small GGUF files in memory.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the folder of shared models beside the checkout (TILEWRIGHT_SHARED, or a folder
// "shared" next to a parent of the package), joined with elem. It skips the test if there is none.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	p := Find(elem...)
	if p == "" {
		t.Skipf("shared: no folder shared/%s beside the checkout (set TILEWRIGHT_SHARED)", filepath.Join(elem...))
	}
	return p
}

// Find is Shared for who goes on without it: "" if there is none.
func Find(elem ...string) string {
	path := filepath.Join(elem...)
	if d := os.Getenv("TILEWRIGHT_SHARED"); d != "" {
		return filepath.Join(d, path)
	}
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		if p := filepath.Join(dir, "shared", path); exists(p) {
			return p
		}
	}
	return ""
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }

// Blocks is a shared file of blocks of one GGML type, and the exact values of their weights.
type Blocks struct {
	Name string // of the type
	Type uint32
	Data []byte
	Want []float32
}

// SharedBlocks reads the shared blocks of every type. It skips the test if there are none.
func SharedBlocks(t testing.TB) []Blocks {
	t.Helper()
	dir := Shared(t, "models/tiny/blocks")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var list []struct {
		Type string
		ID   uint32 `json:"ggml_type"`
	}
	if err := json.Unmarshal(read("manifest.json"), &list); err != nil {
		t.Fatal(err)
	}
	out := make([]Blocks, len(list))
	for i, e := range list {
		f32 := read(e.Type + ".f32")
		want := make([]float32, len(f32)/4)
		for k := range want {
			want[k] = math.Float32frombits(binary.LittleEndian.Uint32(f32[4*k:]))
		}
		out[i] = Blocks{Name: e.Type, Type: e.ID, Data: read(e.Type + ".bin"), Want: want}
	}
	return out
}

// Builder assembles a GGUF v3 file with alignment 32.
type Builder struct {
	kv, infos, data bytes.Buffer
	kvs, tensors    uint64
}

func str(w *bytes.Buffer, s string) {
	binary.Write(w, binary.LittleEndian, uint64(len(s)))
	w.WriteString(s)
}

// KV adds a key. The value is an uint32, int32, float32, bool, string, or a slice of one of these.
func (b *Builder) KV(key string, v any) *Builder {
	b.kvs++
	str(&b.kv, key)
	switch v := v.(type) {
	case []string:
		array(b, 8, v)
	case []int32:
		array(b, 5, v)
	case []uint32:
		array(b, 4, v)
	case []float32:
		array(b, 6, v)
	case []bool:
		array(b, 7, v)
	default:
		binary.Write(&b.kv, binary.LittleEndian, kind(v))
		scalar(&b.kv, v)
	}
	return b
}

func kind(v any) uint32 {
	switch v.(type) {
	case uint32:
		return 4
	case int32:
		return 5
	case float32:
		return 6
	case bool:
		return 7
	case string:
		return 8
	}
	panic(fmt.Sprintf("gguftest: value of type %T", v))
}

func scalar(w *bytes.Buffer, v any) {
	if s, ok := v.(string); ok {
		str(w, s)
		return
	}
	binary.Write(w, binary.LittleEndian, v)
}

func array[T any](b *Builder, elem uint32, v []T) {
	binary.Write(&b.kv, binary.LittleEndian, []uint32{9, elem})
	binary.Write(&b.kv, binary.LittleEndian, uint64(len(v)))
	for _, x := range v {
		scalar(&b.kv, x)
	}
}

// Tensor adds a tensor of a GGML type; dims in GGUF order.
func (b *Builder) Tensor(name string, typ uint32, data []byte, dims ...int) *Builder {
	b.tensors++
	str(&b.infos, name)
	binary.Write(&b.infos, binary.LittleEndian, uint32(len(dims)))
	for _, d := range dims {
		binary.Write(&b.infos, binary.LittleEndian, uint64(d))
	}
	binary.Write(&b.infos, binary.LittleEndian, typ)
	binary.Write(&b.infos, binary.LittleEndian, uint64(b.data.Len()))
	b.data.Write(data)
	pad(&b.data)
	return b
}

func pad(w *bytes.Buffer) { w.Write(make([]byte, -w.Len()&31)) }

// Bytes returns the file.
func (b *Builder) Bytes() []byte {
	var w bytes.Buffer
	w.WriteString("GGUF")
	binary.Write(&w, binary.LittleEndian, uint32(3))
	binary.Write(&w, binary.LittleEndian, []uint64{b.tensors, b.kvs})
	w.Write(b.kv.Bytes())
	w.Write(b.infos.Bytes())
	pad(&w)
	w.Write(b.data.Bytes())
	return w.Bytes()
}
