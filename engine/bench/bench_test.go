package bench

import (
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]struct {
		test            Test
		tokens, context int
	}{
		"pp512":       {PP512, 512, 512},
		"tg128":       {TG128, 128, 128},
		"tg128@d4096": {Test{Gen: 128, Depth: 4096}, 128, 4224},
		"pp16@d32":    {Test{Prompt: 16, Depth: 32}, 16, 48},
	} {
		got, err := Parse(name)
		if err != nil || got != want.test {
			t.Errorf("Parse(%s) = %+v, %v, want %+v", name, got, err, want.test)
		}
		if got.String() != name || got.Tokens() != want.tokens || got.Context() != want.context {
			t.Errorf("%s: name %s, %d tokens, context %d", name, got, got.Tokens(), got.Context())
		}
	}
	for _, name := range []string{"", "pp", "pp0", "tg-1", "tg128@", "tg128@4096", "xx5", "pp512 ", "tg1234567", "pp5@d12345678"} {
		if got, err := Parse(name); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("pp512")
	f.Add("tg128@d0")
	f.Fuzz(func(t *testing.T, name string) {
		got, err := Parse(name)
		if err != nil {
			return
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q is %+v, its name %s is %+v (%v)", name, got, got, again, err)
		}
	})
}
