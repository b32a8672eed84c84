package cache

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func FuzzUnseal(f *testing.F) {
	for _, v := range []any{testDecision(), Rule{Key: testRuleKey()}, ArtifactRecord{Request: testRequest(), Artifact: *testArtifact()}} {
		good, err := seal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(good)
	}
	f.Add([]byte("tilewright 1 00 2\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&Decision{}, &Rule{}, &ArtifactRecord{}} {
			if err := unseal(b, v); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("untyped error %v", err)
			}
		}
	})
}

// FuzzRecord decodes and migrates the JSON of records whose envelope is right: what a bug of another
// version may have sealed.
func FuzzRecord(f *testing.F) {
	fakeSchema0(f)
	f.Add([]byte(`{"key":{"cpu_count":3},"arm":{}}`))
	f.Add([]byte(`{"key":[],"artifact":{"code":"w6M="}}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, schema := range []int{0, Schema} {
			var d Decision
			if decodeRecord(body, schema, &d) == nil {
				kernel.KeyDigest(d.Key)
				_ = d.title()
			}
			var a ArtifactRecord
			if decodeRecord(body, schema, &a) == nil {
				_ = a.check(testRequest())
			}
			var r Rule
			_ = decodeRecord(body, schema, &r)
		}
	})
}

func FuzzBundle(f *testing.F) {
	pub, _, _ := ed25519.GenerateKey(bytes.NewReader(make([]byte, 64)))
	f.Add([]byte(`{"bundle":"e30=","public_key":"","signature":""}`))
	f.Add([]byte(`{"schema":1,"decisions":[{"key":{}}],"rules":[null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := openBundle(b, pub); err == nil {
			t.Error("an unsigned bundle was opened")
		}
		if _, err := decodeBundle(b); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("untyped error %v", err)
		}
	})
}
