package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrMissing is wrapped by the getters' errors about an absent key.
var ErrMissing = errors.New("missing key")

// Meta is the metadata of a file. Getters return copies, valid after Close.
type Meta struct {
	keys []string
	vals map[string]value
}

type value struct {
	typ  ValueType
	elem ValueType // of an array
	n    int       // items of an array
	raw  []byte    // the value, or an array's items
}

const (
	maxKey = 65535
	minKV  = 8 + 1 + 4 + 1 // key length, a key, value type, a value
)

func readMeta(c *cursor) (Meta, error) {
	n, err := c.count("the key count", minKV)
	if err != nil {
		return Meta{}, err
	}
	m := Meta{vals: make(map[string]value, n)}
	for i := range n {
		what := fmt.Sprintf("key %d", i)
		k, err := c.str(what)
		if err != nil {
			return m, err
		}
		switch {
		case len(k) == 0:
			return m, fmt.Errorf("%s is empty", what)
		case len(k) > maxKey || !utf8.Valid(k):
			return m, fmt.Errorf("%s is malformed: %q", what, k[:min(len(k), 64)])
		}
		key := string(k)
		if _, dup := m.vals[key]; dup {
			return m, fmt.Errorf("duplicate key %q", key)
		}
		v, err := readValue(c, key)
		if err != nil {
			return m, err
		}
		m.keys = append(m.keys, key)
		m.vals[key] = v
	}
	return m, nil
}

func readValue(c *cursor, key string) (value, error) {
	what := fmt.Sprintf("the value of key %q", key)
	t, err := c.u32(what)
	if err != nil {
		return value{}, err
	}
	v := value{typ: ValueType(t)}
	switch {
	case int(t) >= len(valueTypes):
		return v, fmt.Errorf("key %q: unknown value type %d", key, t)
	case v.typ == vArray:
		return readArray(c, key)
	case v.typ == vString:
		v.raw, err = c.str(what)
	default:
		v.raw, err = c.take(valueTypes[t].size, what)
	}
	if err == nil && v.typ == vBool {
		err = checkBools(key, v.raw)
	}
	return v, err
}

func readArray(c *cursor, key string) (value, error) {
	what := fmt.Sprintf("the array of key %q", key)
	t, err := c.u32(what)
	if err != nil {
		return value{}, err
	}
	v := value{typ: vArray, elem: ValueType(t)}
	switch {
	case int(t) >= len(valueTypes):
		return v, fmt.Errorf("key %q: array of unknown value type %d", key, t)
	case v.elem == vArray:
		return v, fmt.Errorf("key %q: nested arrays are not supported", key)
	}
	size := valueTypes[t].size
	if v.elem == vString {
		size = 8 // a length
	}
	n, err := c.count(fmt.Sprintf("the item count of key %q", key), size)
	if err != nil {
		return v, err
	}
	v.n = int(n)
	if v.elem != vString {
		v.raw, err = c.take(n*size, what)
		if err == nil && v.elem == vBool {
			err = checkBools(key, v.raw)
		}
		return v, err
	}
	start := c.off
	for range n {
		if _, err := c.str("a string"); err != nil {
			return v, fmt.Errorf("key %q: %w", key, err)
		}
	}
	v.raw = c.b[start:c.off:c.off]
	return v, nil
}

func checkBools(key string, p []byte) error {
	if i := slices.IndexFunc(p, func(b byte) bool { return b > 1 }); i >= 0 {
		return fmt.Errorf("key %q: %d is not a boolean", key, p[i])
	}
	return nil
}

// Keys lists the keys in file order.
func (m *Meta) Keys() []string { return slices.Clone(m.keys) }

// Has reports whether a key is present.
func (m *Meta) Has(key string) bool { _, ok := m.vals[key]; return ok }

// IsArray reports whether a key is present and an array.
func (m *Meta) IsArray(key string) bool { return m.vals[key].typ == vArray && m.Has(key) }

// Len is the number of items of an array, 0 for anything else.
func (m *Meta) Len(key string) int { return m.vals[key].n }

func (m *Meta) get(key string) (value, error) {
	v, ok := m.vals[key]
	if !ok {
		return v, fmt.Errorf("%w %s", ErrMissing, key)
	}
	return v, nil
}

func wrongType(key string, v value, want string) error {
	got := v.typ.String()
	if v.typ == vArray {
		got = "array of " + v.elem.String()
	}
	return fmt.Errorf("key %q must be %s, not %s", key, want, got)
}

// String returns a string value. It may be invalid UTF-8.
func (m *Meta) String(key string) (string, error) {
	v, err := m.get(key)
	if err != nil {
		return "", err
	}
	if v.typ != vString {
		return "", wrongType(key, v, "a string")
	}
	return string(v.raw), nil
}

// Bool returns a boolean value.
func (m *Meta) Bool(key string) (bool, error) {
	v, err := m.get(key)
	if err != nil {
		return false, err
	}
	if v.typ != vBool {
		return false, wrongType(key, v, "a boolean")
	}
	return v.raw[0] == 1, nil
}

// Float returns a float32 or float64 value, which may be NaN or infinite.
func (m *Meta) Float(key string) (float64, error) {
	v, err := m.get(key)
	if err != nil {
		return 0, err
	}
	if v.typ != vFloat32 && v.typ != vFloat64 {
		return 0, wrongType(key, v, "a float")
	}
	return floatAt(v.typ, v.raw), nil
}

// Uint returns a value of any integer type that is not negative.
func (m *Meta) Uint(key string) (uint64, error) {
	v, err := m.get(key)
	if err != nil {
		return 0, err
	}
	u, neg, ok := intAt(v.typ, v.raw)
	if !ok {
		return 0, wrongType(key, v, "an unsigned integer")
	}
	if neg {
		return 0, fmt.Errorf("key %q is %d: out of range, must not be negative", key, int64(u))
	}
	return u, nil
}

// Int returns an integer value from lo to hi.
func (m *Meta) Int(key string, lo, hi int) (int, error) {
	u, err := m.Uint(key)
	if err != nil {
		return 0, err
	}
	if u > math.MaxInt64 || int(u) < lo || int(u) > hi {
		return 0, fmt.Errorf("key %q is %d: out of range, must be %d to %d", key, u, lo, hi)
	}
	return int(u), nil
}

func floatAt(t ValueType, p []byte) float64 {
	if t == vFloat64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(p))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(p)))
}

// intAt decodes an integer: its bits, whether it is negative, whether t is an integer type.
func intAt(t ValueType, p []byte) (u uint64, neg, ok bool) {
	var s int64
	switch t {
	case vUint8:
		return uint64(p[0]), false, true
	case vUint16:
		return uint64(binary.LittleEndian.Uint16(p)), false, true
	case vUint32:
		return uint64(binary.LittleEndian.Uint32(p)), false, true
	case vUint64:
		return binary.LittleEndian.Uint64(p), false, true
	case vInt8:
		s = int64(int8(p[0]))
	case vInt16:
		s = int64(int16(binary.LittleEndian.Uint16(p)))
	case vInt32:
		s = int64(int32(binary.LittleEndian.Uint32(p)))
	case vInt64:
		s = int64(binary.LittleEndian.Uint64(p))
	default:
		return 0, false, false
	}
	return uint64(s), s < 0, true
}
