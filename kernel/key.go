package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// FieldClass says what a difference in a keyed field means.
type FieldClass string

const (
	Hard     FieldClass = "hard" // another identity: a miss
	Soft     FieldClass = "soft" // the same identity, to be revalidated
	Excluded FieldClass = "-"    // not part of the identity
)

// KeyField is one leaf of a keyed struct.
type KeyField struct {
	Path  string
	Class FieldClass
	Value string
}

// KeyFields flattens a struct whose every exported field has a `key:"hard|soft|-"` tag into its
// leaves, in path order. The class of a leaf is the weakest on its way down. Maps are flattened by
// sorted key, slices by index together with their length, so that no two values share an encoding.
// It panics on a field without a tag: the test of each keyed struct then fails.
func KeyFields(v any) []KeyField {
	var out []KeyField
	flatten(&out, "", Hard, reflect.ValueOf(v))
	slices.SortFunc(out, func(a, b KeyField) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// KeyDigest is the sha256, in hex, of the hard leaves of v.
func KeyDigest(v any) string { return digestFields(v, Hard) }

// SoftDigest is the sha256, in hex, of the soft leaves of v.
func SoftDigest(v any) string { return digestFields(v, Soft) }

func digestFields(v any, class FieldClass) string {
	h := sha256.New()
	var line []byte
	for _, f := range KeyFields(v) {
		if f.Class == class {
			line = append(strconv.AppendQuote(append(strconv.AppendQuote(line[:0], f.Path), '='), f.Value), '\n')
			h.Write(line)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func flatten(out *[]KeyField, path string, class FieldClass, v reflect.Value) {
	leaf := func(s string) { *out = append(*out, KeyField{path, class, s}) }
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			leaf("nil")
			return
		}
		flatten(out, path, class, v.Elem())
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				panic(fmt.Sprintf("kernel: keyed struct %s has unexported field %s", t, f.Name))
			}
			flatten(out, join(path, f.Name), weaker(class, tagOf(t, f)), v.Field(i))
		}
	case reflect.Map:
		leaf(fmt.Sprintf("map of %d", v.Len()))
		for it := v.MapRange(); it.Next(); {
			flatten(out, fmt.Sprintf("%s[%q]", path, fmt.Sprint(it.Key().Interface())), class, it.Value())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			leaf(fmt.Sprintf("%x", v.Bytes()))
			return
		}
		leaf(fmt.Sprintf("list of %d", v.Len()))
		for i := range v.Len() {
			flatten(out, fmt.Sprintf("%s[%06d]", path, i), class, v.Index(i))
		}
	case reflect.String:
		leaf(v.String())
	case reflect.Int:
		leaf(strconv.FormatInt(v.Int(), 10))
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		leaf(fmt.Sprint(v.Interface()))
	default:
		panic(fmt.Sprintf("kernel: %s of kind %s cannot be part of a key", path, v.Kind()))
	}
}

func tagOf(t reflect.Type, f reflect.StructField) FieldClass {
	switch c := FieldClass(f.Tag.Get("key")); c {
	case Hard, Soft, Excluded:
		return c
	default:
		panic(fmt.Sprintf("kernel: field %s.%s needs a tag key:\"hard\", \"soft\" or \"-\" (has %q)", t, f.Name, c))
	}
}

func weaker(a, b FieldClass) FieldClass {
	rank := map[FieldClass]int{Hard: 0, Soft: 1, Excluded: 2}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
