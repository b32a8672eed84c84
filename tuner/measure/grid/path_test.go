package grid

import (
	"encoding/json"
	"strings"
	"testing"
)

const doc = `{"a":{"b":[1,{"c":"x.y"}]},"results":[{"test":"pp512","ts":5},{"test":"tg128@d4.5","ts":7,"n":3}],"z":{"q":2,"p":1}}`

func TestValue(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a.b.0": "1", "a.b.1.c": "x.y", "results[test=tg128@d4.5].ts": "7", "results[n=3].test": "tg128@d4.5",
		"z": `{"p":1,"q":2}`, "results.0.ts": "5",
	} {
		got, err := Value(v, path)
		if err != nil || text(got) != want {
			t.Errorf("%s: %v %v, want %s", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"a.c": `no field "c"`, "a.b.2": "no element", "a.b.x": "no element", "results[test=x]": "no element with test=x",
		"results[test]": "wants field=value", "z[p=1]": "wants field=value", "a.b.0.q": "of a float64",
	} {
		if got, err := Value(v, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %q", path, got, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	s.Metrics[0].Path = "results[test=pp512].ts"
	r, err := s.Read(v, Arm{Evidence: []string{"z"}}, 0)
	values, shown := r.Values, r.Evidence
	if err != nil || len(values) != 1 || values["tg_ts"] != 5 || shown["z"] != `{"p":1,"q":2}` {
		t.Errorf("%v %v %v", values, shown, err)
	}
	if _, err := s.Read(v, Arm{Evidence: []string{"nope"}}, 0); err == nil {
		t.Error("missing evidence was accepted")
	}
}

func FuzzValue(f *testing.F) {
	f.Add(doc, "results[test=tg128@d4.5].ts")
	f.Add(`[1]`, "[=].0]")
	f.Fuzz(func(t *testing.T, text, path string) {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			_, _ = Value(v, path)
		}
	})
}
