package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	var b bytes.Buffer
	want := []Request{{Nonce: NewNonce(), Op: "load", Body: []byte(`{"a":1}`)}, {Nonce: NewNonce(), Op: "quit"}}
	for _, r := range want {
		if err := Write(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range want {
		var got Request
		if err := Read(&b, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, got); d != "" {
			t.Error(d)
		}
	}
	if err := Read(&b, &Request{}); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	_ = Write(&b, Reply{Nonce: "n", Error: "e"})
	f.Add(b.Bytes())
	f.Add([]byte{255, 255, 255, 255})
	f.Add([]byte{4, 0, 0, 0, '{'})
	f.Fuzz(func(t *testing.T, in []byte) {
		err := Read(bytes.NewReader(in), &Reply{})
		if err != nil && !errors.Is(err, ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("untyped error %v", err)
		}
	})
}
