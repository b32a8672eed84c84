package cache

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// mutate calls visit once for every leaf of v (a pointer), with that leaf changed in place.
func mutate(v reflect.Value, path string, class kernel.FieldClass, visit func(path string, class kernel.FieldClass)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			c := kernel.FieldClass(f.Tag.Get("key"))
			if c == kernel.Hard {
				c = class
			} else if class == kernel.Excluded {
				c = class
			}
			mutate(v.Field(i), path+"."+f.Name, c, visit)
		}
	case reflect.Slice:
		old := reflect.ValueOf(v.Interface())
		v.Set(reflect.Append(reflect.AppendSlice(reflect.Zero(v.Type()), old), reflect.Zero(v.Type().Elem())))
		visit(path+" longer", class)
		v.Set(old)
		for i := range v.Len() {
			mutate(v.Index(i), fmt.Sprintf("%s[%d]", path, i), class, visit)
		}
	case reflect.Map:
		old := v.Interface()
		m := reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			m.SetMapIndex(it.Key(), it.Value())
		}
		m.SetMapIndex(reflect.ValueOf("another").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		v.Set(m)
		visit(path+" another key", class)
		v.Set(reflect.ValueOf(old))
		for _, key := range v.MapKeys() {
			m := reflect.MakeMap(v.Type())
			for it := v.MapRange(); it.Next(); {
				m.SetMapIndex(it.Key(), it.Value())
			}
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			mutate(elem, fmt.Sprintf("%s[%v]", path, key), class, func(p string, c kernel.FieldClass) {
				m.SetMapIndex(key, elem)
				v.Set(m)
				visit(p, c)
				v.Set(reflect.ValueOf(old))
			})
		}
	default:
		old := reflect.ValueOf(v.Interface())
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		default:
			panic(path + ": no mutation for " + v.Kind().String())
		}
		visit(path, class)
		v.Set(old)
	}
}

func testHost() HostKey {
	return HostKey{
		Arch: "amd64", CPU: "AuthenticAMD 25 1", Features: kernel.NewFeatures("avx2", "fma", "f16c"),
		Microcode: "0xa0011d1", Mitigations: "spectre_v2", Kernel: "6.1", THP: "madvise", Governor: "performance",
		NUMA: "1", CoreClass: "P", Quota: "none", Hostname: "box",
	}
}

func testDecisionKey() DecisionKey {
	return DecisionKey{
		Schema: Schema,
		Model: ModelKey{
			Classes: []ClassKey{{Role: "gate_up", N: 13312, K: 2048, Format: kernel.Asym(128), Count: 28}},
			Heads:   8, KVHeads: 2, HeadDim: 256, Layers: 2, Windows: []int{512, 0}, Gate: "gelu", Name: "m", Path: "/x",
		},
		Weights: "w4a8", Phase: "decode+prefill", Context: 4096, CPUs: 2, Objective: "decode,prefill",
		Pinned: map[string]string{"TILEWRIGHT_THREADS": "2"}, Host: testHost(),
		Spaces:  map[string]string{"avx2/linear": "1"},
		Sources: Sources{Engine: "aa", Backends: map[string]string{"avx2": "bb"}}, Protocol: Protocol,
	}
}

func testRuleKey() RuleKey {
	return RuleKey{
		Schema: Schema, Weights: "w4a8", Arith: kernel.A8, Format: kernel.Asym(32), CPUs: 2,
		Pinned: map[string]string{}, Host: testHost(), Spaces: map[string]string{"avx2/linear": "1"},
		Sources: Sources{Engine: "aa", Backends: map[string]string{"avx2": "bb"}}, Protocol: Protocol,
	}
}

func testArtifactKey() kernel.ArtifactKey {
	return kernel.ArtifactKey{
		Problem: kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 64, K: 128, Format: kernel.Asym(32), Layout: kernel.Layout{Lanes: 16, Cols: 2}},
		Config:  kernel.Config{"mr": 1, "prefetch": 512}, LayoutVersion: kernel.LayoutVersion,
		ISA: []string{"avx2", "fma"}, ABI: kernel.ABILeaf, Backend: kernel.BackendID{Name: "avx2", Digest: "bb"},
	}
}

// vllm#43119, vllm#53366, triton-ascend#1664: a flag, a count or an environment switch was not in
// the key. Every single-field change of every keyed struct is tried.
func TestEverySingleFieldChange(t *testing.T) {
	d, r, a, q := testDecisionKey(), testRuleKey(), testArtifactKey(), testRequest()
	for name, key := range map[string]any{"decision": &d, "rule": &r, "artifact": &a, "request": &q} {
		t.Run(name, func(t *testing.T) {
			v := reflect.ValueOf(key).Elem()
			clone := func() any { // a deep copy by value semantics of KeyFields
				return kernel.KeyFields(v.Interface())
			}
			before := clone()
			hard0, soft0 := kernel.KeyDigest(v.Interface()), kernel.SoftDigest(v.Interface())
			counts := map[kernel.FieldClass]int{}
			mutate(v, "", kernel.Hard, func(path string, class kernel.FieldClass) {
				counts[class]++
				hard, soft := kernel.KeyDigest(v.Interface()), kernel.SoftDigest(v.Interface())
				switch class {
				case kernel.Hard:
					if hard == hard0 {
						t.Errorf("%s is hard, but the key did not change", path)
					}
				case kernel.Soft:
					if hard != hard0 || soft == soft0 {
						t.Errorf("%s is soft: hard changed %t, soft changed %t", path, hard != hard0, soft != soft0)
					}
				case kernel.Excluded:
					if hard != hard0 || soft != soft0 {
						t.Errorf("%s is excluded, but a key changed", path)
					}
				}
			})
			if !reflect.DeepEqual(before, clone()) {
				t.Fatal("the walk did not restore the key")
			}
			if counts[kernel.Hard] < 8 {
				t.Fatalf("only %v leaves were changed", counts)
			}
			t.Logf("changed %v", counts)
		})
	}
}

func TestUntaggedFieldFails(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a field without a tag was accepted")
		}
	}()
	kernel.KeyFields(struct{ A int }{1})
}

// vllm#47573, dynamo#10695: paths and names are in no key.
func TestLocationIsNotIdentity(t *testing.T) {
	a, b := testDecisionKey(), testDecisionKey()
	b.Model.Path, b.Model.Name, b.Host.Hostname = "/elsewhere", "renamed", "other"
	if d := Compare(a, b); len(d) != 0 {
		t.Errorf("diffs %v", d)
	}
}

func TestContextBucket(t *testing.T) {
	for ctx, want := range map[int]int{0: 1024, 1024: 1024, 1025: 4096, 5000: 16384, 1 << 22: 1 << 20} {
		if got := ContextBucket(ctx); got != want {
			t.Errorf("ContextBucket(%d) = %d, want %d", ctx, got, want)
		}
	}
}
