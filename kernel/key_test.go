package kernel_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

// keyed are full values of every struct of this package that takes part in a key.
func keyed() []any {
	p := kernel.Problem{
		Op: kernel.OpLinear, Arith: kernel.A8, M: 4, N: 64, K: 128, Format: kernel.Asym(32),
		Layout: kernel.Layout{Lanes: 16, Cols: 2}, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 4},
		Pre: kernel.PreGLU, Gate: kernel.GateSiLU, Dim: 64, Rot: 32, Norm: true, Elem: kernel.ElemF16,
	}
	p.Format.Bias, p.Format.Super = 8, kernel.SuperQ4K
	c := kernel.Config{"mr": 4, "nc": 2}
	id := kernel.BackendID{Name: "avx2", Digest: "abc"}
	return []any{
		&p, &id, &kernel.Choice{Problem: p, Backend: "avx2", Config: c},
		&kernel.Arm{Choices: []kernel.Choice{{Problem: p, Backend: "avx2", Config: c}}, Knobs: kernel.DefaultKnobs(2)},
		&kernel.ArtifactKey{Problem: p, Config: c, LayoutVersion: 1, ISA: []string{"avx2", "fma"}, ABI: kernel.ABILeaf, Backend: id},
	}
}

// TestEveryLeafChangesTheKey changes each leaf of each keyed struct in turn, and expects the digest
// to change and to return.
func TestEveryLeafChangesTheKey(t *testing.T) {
	for _, v := range keyed() {
		was := kernel.KeyDigest(v)
		n := 0
		each(reflect.ValueOf(v).Elem(), reflect.TypeOf(v).Elem().Name(), func(path string) {
			n++
			if kernel.KeyDigest(v) == was {
				t.Errorf("changing %s leaves the key as it was", path)
			}
		})
		if kernel.KeyDigest(v) != was {
			t.Errorf("%T: the key does not return", v)
		}
		for _, f := range kernel.KeyFields(v) {
			if f.Class != kernel.Hard {
				t.Errorf("%T: field %s is %q, all of the contract is hard", v, f.Path, f.Class)
			}
		}
		if n < reflect.TypeOf(v).Elem().NumField() {
			t.Errorf("%T: only %d leaves were changed", v, n)
		}
	}
}

// each calls f after changing one leaf of v, and puts the leaf back.
func each(v reflect.Value, path string, f func(path string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	try := func(set func()) { set(); f(path); v.Set(old) }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
		try(func() { v.Set(v.Slice(0, v.Len()-1)) })
	case reflect.Map:
		for _, k := range v.MapKeys() {
			was := v.MapIndex(k)
			v.SetMapIndex(k, reflect.ValueOf(was.Int()+1))
			f(path + "[" + k.String() + "]")
			v.SetMapIndex(k, reflect.Value{})
			f(path + " without " + k.String())
			v.SetMapIndex(k, was)
		}
	case reflect.String:
		try(func() { v.SetString(v.String() + "x") })
	case reflect.Bool:
		try(func() { v.SetBool(!v.Bool()) })
	case reflect.Int, reflect.Int64:
		try(func() { v.SetInt(v.Int() + 1) })
	default:
		panic("unknown kind " + v.Kind().String() + " at " + path)
	}
}

func TestFieldClasses(t *testing.T) {
	type inner struct {
		Hard string `key:"hard"`
		Soft string `key:"soft"`
	}
	type outer struct {
		A inner `key:"hard"`
		B inner `key:"soft"`
		C inner `key:"-"`
	}
	base := outer{}
	for _, c := range []struct {
		name       string
		change     func(*outer)
		hard, soft bool
	}{
		{"hard in hard", func(o *outer) { o.A.Hard = "x" }, true, false},
		{"soft in hard", func(o *outer) { o.A.Soft = "x" }, false, true},
		{"hard in soft", func(o *outer) { o.B.Hard = "x" }, false, true},
		{"soft in excluded", func(o *outer) { o.C.Soft = "x" }, false, false},
	} {
		o := base
		c.change(&o)
		if got := kernel.KeyDigest(o) != kernel.KeyDigest(base); got != c.hard {
			t.Errorf("%s: hard digest changed: %t", c.name, got)
		}
		if got := kernel.SoftDigest(o) != kernel.SoftDigest(base); got != c.soft {
			t.Errorf("%s: soft digest changed: %t", c.name, got)
		}
	}
}

func TestUntaggedFieldsPanic(t *testing.T) {
	for name, v := range map[string]any{
		"no tag": struct{ A int }{},
		"unknown class": struct {
			A int `key:"firm"`
		}{},
		"unexported": struct {
			a int `key:"hard"`
		}{},
		"a channel": struct {
			A chan int `key:"hard"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			kernel.KeyDigest(v)
		}()
	}
}

// TestKeyEncodingIsInjective: different lists and maps of arbitrary strings have different digests.
func TestKeyEncodingIsInjective(t *testing.T) {
	type key struct {
		List []string         `key:"hard"`
		Map  map[string]int64 `key:"hard"`
		Last string           `key:"hard"`
	}
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\\n=[].,\x00")), 0, 4, -1)
	gen := rapid.Custom(func(t *rapid.T) key {
		return key{
			rapid.SliceOfN(text, 0, 3).Draw(t, "list"),
			rapid.MapOfN(text, rapid.Int64Range(0, 1), 0, 2).Draw(t, "map"),
			text.Draw(t, "last"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		same := slices.Equal(a.List, b.List) && maps.Equal(a.Map, b.Map) && a.Last == b.Last
		if got := kernel.KeyDigest(a) == kernel.KeyDigest(b); got != same {
			t.Fatalf("%+v and %+v: equal digests %t", a, b, got)
		}
	})
}
