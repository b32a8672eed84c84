package tokenizer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
)

func load(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func unbase64(t testing.TB, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSmolLMTokens(t *testing.T) {
	dir := gguftest.Shared(t, "models/smollm2-135m")
	tok := load(t, filepath.Join(dir, "model.gguf"))
	var cases []struct {
		Text         string
		IDs          []int
		Alt          []int   `json:"ids_tokenizers"`
		AddSpecial   bool    `json:"add_special"`
		ParseSpecial bool    `json:"parse_special"`
		DetokOK      bool    `json:"detok_ok"`
		Detok        *string `json:"detok_b64"`
	}
	readJSON(t, filepath.Join(dir, "tokens.json"), &cases)
	for _, c := range cases {
		got := tok.Encode(c.Text, Options{c.AddSpecial, c.ParseSpecial})
		if !slices.Equal(got, c.IDs) && (c.Alt == nil || !slices.Equal(got, c.Alt)) {
			t.Errorf("%q: %v, want %v", c.Text, got, c.IDs)
		}
		want := c.Text
		if !c.DetokOK && c.Detok != nil {
			want = unbase64(t, *c.Detok)
		}
		if back := tok.Decode(got, false); back != want {
			t.Errorf("%q came back as %q", want, back)
		}
	}
	if len(cases) < 400 {
		t.Errorf("only %d cases", len(cases))
	}
}

func TestSmolLMPieces(t *testing.T) {
	dir := gguftest.Shared(t, "models/smollm2-135m")
	tok := load(t, filepath.Join(dir, "model.gguf"))
	var ref struct {
		Sum   string `json:"all_pieces_sha256"`
		Cases []struct {
			IDs     []int
			Bytes   string  `json:"bytes_b64"`
			Dropped *string `json:"bytes_b64_specials_dropped"`
		}
	}
	readJSON(t, filepath.Join(dir, "detok.json"), &ref)
	h := sha256.New()
	for id := range tok.Size() {
		p := tok.Piece(id)
		binary.Write(h, binary.LittleEndian, uint32(len(p)))
		h.Write(p)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != ref.Sum {
		t.Errorf("sha256 of all pieces %s, want %s", got, ref.Sum)
	}
	for _, c := range ref.Cases {
		want := unbase64(t, c.Bytes)
		if got := tok.Decode(c.IDs, false); got != want {
			t.Errorf("%v: %q, want %q", c.IDs, got, want)
		}
		s, got := tok.NewStream(false, true), ""
		for _, id := range c.IDs {
			got += s.Push(id)
		}
		if got += s.Flush(); got != want {
			t.Errorf("%v streamed: %q, want %q", c.IDs, got, want)
		}
		if c.Dropped != nil {
			if got := tok.Decode(c.IDs, true); got != unbase64(t, *c.Dropped) {
				t.Errorf("%v without specials: %q", c.IDs, got)
			}
		}
	}
}

func TestTinyReferences(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(gguftest.Shared(t, "models/tiny"), "gguf-*", "*.gguf"))
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tok := load(t, path)
			var ref struct {
				Tokenizer []struct {
					Text, Decoded string
					IDs           []int
					Special       []int `json:"ids_with_special"`
				}
			}
			readJSON(t, filepath.Join(filepath.Dir(path), "reference.json"), &ref)
			for _, c := range ref.Tokenizer {
				if got := tok.Encode(c.Text, Options{}); !slices.Equal(got, c.IDs) {
					t.Errorf("%q: %v, want %v", c.Text, got, c.IDs)
				}
				if got := tok.Encode(c.Text, Options{AddSpecial: true}); !slices.Equal(got, c.Special) {
					t.Errorf("%q with special: %v, want %v", c.Text, got, c.Special)
				}
				if got := tok.Decode(c.IDs, true); got != c.Decoded {
					t.Errorf("decoded %q, want %q", got, c.Decoded)
				}
			}
			if len(ref.Tokenizer) == 0 {
				t.Error("no cases")
			}
		})
	}
	if len(paths) == 0 {
		t.Error("no files")
	}
}

func BenchmarkEncode(b *testing.B) {
	tok := load(b, gguftest.Shared(b, "models/smollm2-135m/model.gguf"))
	raw, err := os.ReadFile(gguftest.Shared(b, "models/corpus/heldout.txt"))
	if err != nil {
		b.Fatal(err)
	}
	raw = raw[:min(len(raw), 100_000)]
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		tok.Encode(string(raw), Options{})
	}
}

func BenchmarkLoad(b *testing.B) {
	path := gguftest.Shared(b, "models/smollm2-135m/model.gguf")
	for b.Loop() {
		load(b, path)
	}
}
