package app

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
)

// others are other values of every flag that changes what runs.
var others = map[string]string{
	"preset": "qwen3-0.6b", "weights": "w4a16", "ctx": "30000", "kv-type": "f32", "threads": "1", "threads-prefill": "1", "isa": "+made_up",
}

// apart are flags that change no result: --pin looks nothing up; --model names a file, whose content is
// in the key; --requant is in the key through the formats that it makes.
var apart = map[string]bool{"pin": true, "model": true, "requant": true}

// decisionKey is the key that a command with these arguments looks up.
func decisionKey(t *testing.T, args ...string) string {
	t.Helper()
	f, digest := &ModelFlags{}, ""
	root, _ := cli.New("engine", "")
	c := &cobra.Command{Use: "run", RunE: func(cmd *cobra.Command, _ []string) error {
		ref, err := f.Ref()
		if err != nil {
			return err
		}
		n, err := f.Numerics()
		if err != nil {
			return err
		}
		h, err := NewHost(cmd.Context(), f.ISA)
		if err != nil {
			return err
		}
		b, err := NewBackends(cmd.Context(), h, "", "")
		if err != nil {
			return err
		}
		m, err := OpenModel(ref)
		if err != nil {
			return err
		}
		defer m.Close()
		key, err := Target(h, b, m, n, f.Context, f.Pinned()).DecisionKey()
		digest = kernel.KeyDigest(key)
		return err
	}}
	f.Register(c.Flags(), true)
	root.AddCommand(c)
	root.SetArgs(append([]string{"run"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return digest
}

// triton-ascend#1664, vllm#43119: every flag that changes what runs is in the key, whether it is typed
// or set in the environment, and the same way.
func TestEveryFlagIsInTheKey(t *testing.T) {
	t.Setenv("TILEWRIGHT_PRESET", "smollm2-135m")
	base := decisionKey(t)
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&ModelFlags{}).Register(fs, true)
	fs.VisitAll(func(fl *pflag.Flag) {
		if apart[fl.Name] {
			return
		}
		v := others[fl.Name]
		if v == "" {
			t.Errorf("--%s: say here how it changes the key, or why it need not", fl.Name)
			return
		}
		typed := decisionKey(t, "--"+fl.Name, v)
		t.Run(fl.Name, func(t *testing.T) {
			t.Setenv("TILEWRIGHT_"+strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_")), v)
			if env := decisionKey(t); env != typed || typed == base {
				t.Errorf("typed %.8s, from the environment %.8s, without %.8s", typed, env, base)
			}
		})
	})
}

// A host's key holds still: facts that change by themselves would ask for revalidation at every start.
func TestHostKeyHoldsStill(t *testing.T) {
	a, err := NewHost(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewHost(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if kernel.KeyDigest(a.Key) != kernel.KeyDigest(b.Key) || kernel.SoftDigest(a.Key) != kernel.SoftDigest(b.Key) {
		t.Errorf("%+v\n%+v", a.Key, b.Key)
	}
}

func TestMain(m *testing.M) {
	MaybeServe()
	m.Run()
}
