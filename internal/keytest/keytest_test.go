package keytest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

// roots are the keyed structs that nothing else holds.
func roots() []any {
	return []any{&cache.DecisionKey{}, &cache.RuleKey{}, &cache.Request{}, &kernel.ArtifactKey{}, &kernel.Arm{}, &host.Profile{},
		&model.Numerics{}, &model.Class{}}
}

// vllm#43119, vllm#53366 (a flag or a count missing from the key), triton-ascend#1664 (an environment
// switch), openvm-eth#624 (features), dealii#15873 (microcode), vllm#47573, dynamo#10695 (paths and
// names in it): over every single-field change of every keyed struct, a hard field changes the key, a
// soft one asks for revalidation, an excluded one changes nothing.
func TestEverySingleFieldChange(t *testing.T) {
	for _, key := range roots() {
		t.Run(reflect.TypeOf(key).Elem().String(), func(t *testing.T) {
			Fill(key)
			value := func() any { return reflect.ValueOf(key).Elem().Interface() }
			before := kernel.KeyFields(value())
			hard0, soft0 := kernel.KeyDigest(value()), kernel.SoftDigest(value())
			counts := map[kernel.FieldClass]int{}
			EachChange(key, func(path string, class kernel.FieldClass) {
				counts[class]++
				hard, soft := kernel.KeyDigest(value()) != hard0, kernel.SoftDigest(value()) != soft0
				if hard != (class == kernel.Hard) || soft != (class == kernel.Soft) {
					t.Errorf("%s is %s: hard key changed %t, soft %t", path, class, hard, soft)
				}
			})
			if !reflect.DeepEqual(before, kernel.KeyFields(value())) {
				t.Fatal("the walk did not restore the key")
			}
			if counts[kernel.Hard] < 2 {
				t.Fatalf("only %v were changed", counts)
			}
			t.Logf("changed %v", counts)
		})
	}
}

// A store looked up with any single-field change never returns what was made for another key.
func TestNoWrongReuse(t *testing.T) {
	s := cache.Open(cache.Options{Dir: filepath.Join(t.TempDir(), "c")})
	defer s.Close()
	var key cache.DecisionKey
	Fill(&key)
	key.Schema = cache.Schema
	var rule cache.RuleKey
	Fill(&rule)
	rule.Schema = cache.Schema
	if err := s.PutDecision(cache.Decision{Key: key}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutRule(cache.Rule{Key: rule}); err != nil {
		t.Fatal(err)
	}
	want := map[kernel.FieldClass]cache.Status{kernel.Hard: cache.Miss, kernel.Soft: cache.Revalidate, kernel.Excluded: cache.Exact}
	EachChange(&key, func(path string, class kernel.FieldClass) {
		if d, look := s.Decision(key); look.Status != want[class] || look.Fits(d) != (class == kernel.Excluded) {
			t.Errorf("decision, %s (%s): %+v", path, class, look)
		}
	})
	EachChange(&rule, func(path string, class kernel.FieldClass) {
		if _, look := s.Rule(rule); look.Status != want[class] {
			t.Errorf("rule, %s (%s): %+v", path, class, look)
		}
	})
}

// Every struct of the project with a key tag is part of a root, so that the property covers it.
func TestAllKeyedStructsAreCovered(t *testing.T) {
	covered := map[string]bool{}
	for _, r := range roots() {
		collect(reflect.TypeOf(r).Elem(), covered)
	}
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && keyed(spec) {
				found[f.Name.Name+"."+spec.Name.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("found only %v", slices.Sorted(maps.Keys(found)))
	}
	for name := range found {
		if !covered[name] {
			t.Errorf("%s has key tags, but is part of no root: add one", name)
		}
	}
}

func keyed(spec *ast.TypeSpec) bool {
	st, ok := spec.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool {
		return f.Tag != nil && reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("key") != ""
	})
}

func collect(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Array:
		collect(t.Elem(), into)
	case reflect.Struct:
		into[t.String()] = true
		for i := range t.NumField() {
			collect(t.Field(i).Type, into)
		}
	}
}
