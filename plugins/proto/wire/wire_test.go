package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
)

// fill gives every exported leaf of a struct a value of its own, so that a field that a conversion
// forgets is found.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	}
}

// transit sends a message through its encoding.
func transit[M proto.Message](t testing.TB, m, into M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestProblemCarriesEveryField(t *testing.T) {
	var p kernel.Problem
	fill(reflect.ValueOf(&p).Elem(), new(int))
	got, err := FromProblem(transit(t, ToProblem(p), &pb.Problem{}))
	if err != nil || got != p {
		t.Errorf("%v\n%s", err, cmp.Diff(p, got))
	}
}

func TestArtifactCarriesEveryField(t *testing.T) {
	p, c := kernel.Problem{Op: kernel.OpScale}, kernel.Config{"x": -3}
	id := kernel.BackendID{Name: "b", Digest: "d"}
	a := &kernel.Artifact{
		Key:  kernel.ArtifactKey{Problem: p, Config: c, LayoutVersion: 7, ISA: []string{"avx2", "fma"}, ABI: kernel.ABILeaf, Backend: id},
		Kind: kernel.KindCode, Code: []byte{1, 2}, Entries: map[string]int{"main": 1},
	}
	fill(reflect.ValueOf(&a.Exec).Elem(), new(int))
	m, err := ToArtifact(a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromArtifact(transit(t, m, &pb.EmitResponse{}), p, c, id)
	if err != nil || !cmp.Equal(a, got) {
		t.Errorf("%v\n%s", err, cmp.Diff(a, got))
	}
}

func TestManifestCarriesEveryField(t *testing.T) {
	m := kernel.Manifest{Name: "b", Version: "1", Doc: "d", Arch: "arm64", Requires: []string{"i8mm"}, Ops: []kernel.Op{"scale"}, Env: []string{"CC"}}
	got, err := FromManifest(transit(t, ToManifest(m), &pb.ManifestResponse{}))
	if err != nil || !cmp.Equal(m, got) {
		t.Errorf("%v\n%s", err, cmp.Diff(m, got))
	}
}

func TestSpaceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s kernel.Space
		s.Version = rapid.String().Draw(t, "version")
		for i := range rapid.IntRange(0, 5).Draw(t, "params") {
			p := kernel.Param{Name: fmt.Sprintf("p%d", i), Doc: rapid.StringN(0, 50, 200).Draw(t, "doc"),
				Values: rapid.SliceOfNDistinct(rapid.Int64Range(0, 100), 1, 6, rapid.ID[int64]).Draw(t, "values")}
			p.Default = p.Values[0]
			s.Params = append(s.Params, p)
			s.Constraints = append(s.Constraints, kernel.Constraint{Doc: "bound", Terms: [][]string{{p.Name, "4"}, {"2"}}, Max: 1000})
		}
		b, err := proto.Marshal(ToSpace(s))
		if err != nil {
			t.Skip("not UTF-8")
		}
		var m pb.SpaceResponse
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		got, err := FromSpace(&m)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", s) {
			t.Fatalf("%v\n%s", err, cmp.Diff(s, got))
		}
	})
}

func TestLayouts(t *testing.T) {
	ls := []kernel.Layout{{Lanes: 16, Cols: 2}, {Lanes: 4, Cols: 1}}
	got, err := FromLayouts(transit(t, ToLayouts(ls), &pb.LayoutsResponse{}), kernel.FormatQ4_0)
	if err != nil || !cmp.Equal(ls, got) {
		t.Error(err, got)
	}
	for _, bad := range []*pb.LayoutsResponse{
		{Layouts: []*pb.Layout{{Lanes: -1, Cols: 1}}}, {Layouts: []*pb.Layout{nil}}, {Layouts: make([]*pb.Layout, 1000)},
	} {
		if _, err := FromLayouts(bad, kernel.FormatQ4_0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	id := kernel.BackendID{Name: "b"}
	artifact := func(edit func(*pb.EmitResponse)) error {
		m := &pb.EmitResponse{Kind: "code", Code: []byte{0xc3}, BackendName: "b", Exec: &pb.Exec{}}
		edit(m)
		_, err := FromArtifact(m, kernel.Problem{}, nil, id)
		return err
	}
	space := func(s kernel.Space) error {
		_, err := FromSpace(ToSpace(s))
		return err
	}
	param := func(name string, vs ...int64) kernel.Param {
		return kernel.Param{Name: name, Values: vs, Default: vs[0]}
	}
	many := make([]int64, maxValues+1)
	for i := range many {
		many[i] = int64(i)
	}
	for name, err := range map[string]error{
		"code too large":       artifact(func(m *pb.EmitResponse) { m.Code = make([]byte, MaxCode+1) }),
		"negative entry":       artifact(func(m *pb.EmitResponse) { m.Entries = map[string]int64{"main": -1} }),
		"entry beyond reason":  artifact(func(m *pb.EmitResponse) { m.Entries = map[string]int64{"main": 1 << 40} }),
		"entry name":           artifact(func(m *pb.EmitResponse) { m.Entries = map[string]int64{"../x": 0} }),
		"scratch of 1 TB":      artifact(func(m *pb.EmitResponse) { m.Exec.ScratchBytes = 1 << 40 }),
		"negative unit":        artifact(func(m *pb.EmitResponse) { m.Exec.Unit = -1 }),
		"foreign backend":      artifact(func(m *pb.EmitResponse) { m.BackendName = "other" }),
		"feature with newline": artifact(func(m *pb.EmitResponse) { m.Isa = []string{"avx2\n"} }),
		"param name":           space(kernel.Space{Params: []kernel.Param{param("a b", 1)}}),
		"values twice":         space(kernel.Space{Params: []kernel.Param{param("a", 1, 1)}}),
		"too many values":      space(kernel.Space{Params: []kernel.Param{param("a", many...)}}),
		"too many params":      space(kernel.Space{Params: make([]kernel.Param, maxParams+1)}),
		"default outside":      space(kernel.Space{Params: []kernel.Param{{Name: "a", Values: []int64{1}, Default: 2}}}),
		"literal with tail":    space(kernel.Space{Constraints: []kernel.Constraint{{Terms: [][]string{{"4x!"}}}}}),
		"unknown factor":       space(kernel.Space{Constraints: []kernel.Constraint{{Terms: [][]string{{"zz"}}}}}),
		"long doc":             space(kernel.Space{Params: []kernel.Param{{Name: "a", Values: []int64{0}, Doc: strings.Repeat("x", maxText+1)}}}),
		"no ops":               CheckManifest(kernel.Manifest{Name: "a"}),
		"manifest name":        CheckManifest(kernel.Manifest{Name: "../a", Ops: []kernel.Op{"x"}}),
		"arch":                 CheckManifest(kernel.Manifest{Name: "a", Ops: []kernel.Op{"x"}, Arch: "vax"}),
		"env":                  CheckManifest(kernel.Manifest{Name: "a", Ops: []kernel.Op{"x"}, Env: []string{"A=B"}}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FromProblem(&pb.Problem{Op: "linear", M: -1}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := ToArtifact(nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Whatever bytes come, decoding ends in a value that the contract allows, or in an error.
func FuzzDecode(f *testing.F) {
	a, _ := ToArtifact(&kernel.Artifact{Kind: kernel.KindCode, Code: []byte{1}, Entries: map[string]int{"main": 0}})
	for _, m := range []proto.Message{a, ToProblem(kernel.Problem{Op: "linear", M: 1}),
		ToSpace(kernel.Space{Params: []kernel.Param{{Name: "a", Values: []int64{1, 2}, Default: 1}}}),
		ToManifest(kernel.Manifest{Name: "a", Ops: []kernel.Op{"x"}})} {
		b, _ := proto.Marshal(m)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e pb.EmitResponse
		if proto.Unmarshal(b, &e) == nil {
			if a, err := FromArtifact(&e, kernel.Problem{}, nil, kernel.BackendID{}); err == nil {
				a.Digest()
				a.Validate(nil)
			}
		}
		var s pb.SpaceResponse
		if proto.Unmarshal(b, &s) == nil {
			if sp, err := FromSpace(&s); err == nil && sp.Check(sp.Default()) != nil {
				t.Errorf("space accepted, default refused: %+v", sp)
			}
		}
		var p pb.Problem
		if proto.Unmarshal(b, &p) == nil {
			FromProblem(&p)
		}
		var m pb.ManifestResponse
		if proto.Unmarshal(b, &m) == nil {
			FromManifest(&m)
		}
	})
}
