package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Strings returns an array of strings. They share one copy of the file's bytes.
func (m *Meta) Strings(key string) ([]string, error) {
	v, err := m.array(key, "an array of strings", func(t ValueType) bool { return t == vString })
	if err != nil {
		return nil, err
	}
	all := string(v.raw)
	out := make([]string, v.n)
	off := 0
	for i := range out {
		n := int(binary.LittleEndian.Uint64(v.raw[off:]))
		out[i] = all[off+8 : off+8+n]
		off += 8 + n
	}
	return out, nil
}

// Ints returns an array of any integer type.
func (m *Meta) Ints(key string) ([]int64, error) {
	v, err := m.array(key, "an array of integers", func(t ValueType) bool {
		return t != vFloat32 && t != vFloat64 && t != vBool && t != vString
	})
	if err != nil {
		return nil, err
	}
	size := int(valueTypes[v.elem].size)
	out := make([]int64, v.n)
	for i := range out {
		u, neg, _ := intAt(v.elem, v.raw[i*size:])
		if u > math.MaxInt64 && !neg {
			return nil, fmt.Errorf("key %q: item %d is %d: out of range", key, i, u)
		}
		out[i] = int64(u)
	}
	return out, nil
}

// Floats returns an array of float32 or float64, which may hold NaN or infinities.
func (m *Meta) Floats(key string) ([]float32, error) {
	v, err := m.array(key, "an array of floats", func(t ValueType) bool { return t == vFloat32 || t == vFloat64 })
	if err != nil {
		return nil, err
	}
	size := int(valueTypes[v.elem].size)
	out := make([]float32, v.n)
	for i := range out {
		out[i] = float32(floatAt(v.elem, v.raw[i*size:]))
	}
	return out, nil
}

// Bools returns an array of booleans.
func (m *Meta) Bools(key string) ([]bool, error) {
	v, err := m.array(key, "an array of booleans", func(t ValueType) bool { return t == vBool })
	if err != nil {
		return nil, err
	}
	out := make([]bool, v.n)
	for i := range out {
		out[i] = v.raw[i] == 1
	}
	return out, nil
}

func (m *Meta) array(key, want string, ok func(ValueType) bool) (value, error) {
	v, err := m.get(key)
	if err != nil {
		return v, err
	}
	if v.typ != vArray || !ok(v.elem) {
		return v, wrongType(key, v, want)
	}
	return v, nil
}

// or replaces the error about an absent key by a default.
func or[T any](v T, err error, def T) (T, error) {
	if errors.Is(err, ErrMissing) {
		return def, nil
	}
	return v, err
}

// StringOr is String with a default for an absent key.
func (m *Meta) StringOr(key, def string) (string, error) {
	v, err := m.String(key)
	return or(v, err, def)
}

// BoolOr is Bool with a default for an absent key.
func (m *Meta) BoolOr(key string, def bool) (bool, error) {
	v, err := m.Bool(key)
	return or(v, err, def)
}

// FloatOr is Float with a default for an absent key.
func (m *Meta) FloatOr(key string, def float64) (float64, error) {
	v, err := m.Float(key)
	return or(v, err, def)
}

// UintOr is Uint with a default for an absent key.
func (m *Meta) UintOr(key string, def uint64) (uint64, error) {
	v, err := m.Uint(key)
	return or(v, err, def)
}

// IntOr is Int with a default, not checked against the range, for an absent key.
func (m *Meta) IntOr(key string, def, lo, hi int) (int, error) {
	v, err := m.Int(key, lo, hi)
	return or(v, err, def)
}
