// Package cli is what the two commands share: flags with their environment and file counterparts,
// logging, exit status and signals.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/tilewright/tilewright/cache"
)

// Exit statuses.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitRefused     = 3 // would not judge: host busy, noise floor too high
	ExitInterrupted = 130
)

// ErrUsage and ErrRefused choose the exit status of an error that wraps them.
var (
	ErrUsage   = errors.New("wrong usage")
	ErrRefused = errors.New("refused to judge")
)

// Usagef makes a usage error.
func Usagef(format string, a ...any) error {
	return &usageError{fmt.Sprintf(format, a...)}
}

type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }
func (e *usageError) Unwrap() error { return ErrUsage }

// Shared are the flags of every command.
type Shared struct {
	CacheDir       string
	SystemCacheDir string
	PluginDir      string
	Config         string
	JSON           bool
	Verbose        bool
	Quiet          bool
	NoProgress     bool
}

// Register adds the shared flags to the root command.
func (s *Shared) Register(f *pflag.FlagSet) {
	f.StringVar(&s.CacheDir, "cache-dir", cache.DefaultDir(), "where tuned results are kept")
	f.StringVar(&s.SystemCacheDir, "system-cache-dir", "/var/lib/tilewright", "read-only results installed by root")
	f.StringVar(&s.PluginDir, "plugin-dir", defaultPluginDir(), "where tilewright-backend-NAME executables are looked for")
	f.StringVar(&s.Config, "config", "", "file with defaults for flags (YAML, TOML or JSON)")
	f.BoolVar(&s.JSON, "json", false, "print JSON")
	f.BoolVarP(&s.Verbose, "verbose", "v", false, "log more")
	f.BoolVarP(&s.Quiet, "quiet", "q", false, "log errors only")
	f.BoolVar(&s.NoProgress, "no-progress", false, "no progress display")
}

// OpenCache opens the result store that the flags name.
func (s *Shared) OpenCache(readOnly bool) *cache.Store {
	return cache.Open(cache.Options{Dir: s.CacheDir, SystemDir: s.SystemCacheDir, ReadOnly: readOnly})
}

func defaultPluginDir() string {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = home + "/.local/share"
	}
	return base + "/tilewright/plugins"
}

// Version is the module version and revision that the binary was built from.
func Version() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := bi.Main.Version
	for _, s := range bi.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value
		}
	}
	return v
}

// New makes a root command with the shared flags; every flag of every sub-command also takes its
// value from TILEWRIGHT_NAME or from the file of --config, in this order.
func New(name, short string) (*cobra.Command, *Shared) {
	s := &Shared{}
	root := &cobra.Command{
		Use: name, Short: short, Version: Version(),
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q", args[0])
			}
			return nil
		},
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	s.Register(root.PersistentFlags())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := applyDefaults(cmd, s.Config); err != nil {
			return err
		}
		setLogger(s, cmd.ErrOrStderr())
		return nil
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err.Error()} })
	return root, s
}

// applyDefaults gives the flags that were not typed their values from the environment or the file.
func applyDefaults(cmd *cobra.Command, file string) error {
	v := viper.New()
	v.SetEnvPrefix("TILEWRIGHT")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if file == "" {
		file = os.Getenv("TILEWRIGHT_CONFIG")
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Usagef("--config %s: %v", file, err)
		}
		known := allFlags(cmd.Root())
		for _, k := range v.AllKeys() {
			if !known[k] {
				return Usagef("--config %s: unknown key %q", file, k)
			}
		}
	}
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		key := keyOf(f)
		if err != nil || f.Changed || f.Name == "help" || f.Name == "version" || !v.IsSet(key) {
			return
		}
		if e := setDefault(cmd.Flags(), f, v); e != nil {
			err = Usagef("%s=%v from the environment or --config: %v", key, v.Get(key), e)
		}
	})
	return err
}

// KnownAs gives a flag another name in the environment and in the file of --config, where two commands
// have flags of one name that mean different things.
func KnownAs(fs *pflag.FlagSet, flag, name string) {
	if err := fs.SetAnnotation(flag, knownAs, []string{name}); err != nil {
		panic(err) // a misspelt flag, found by any test of the command
	}
}

const knownAs = "known-as"

// keyOf is a flag's name in the environment and in the file of --config.
func keyOf(f *pflag.Flag) string {
	if a := f.Annotations[knownAs]; len(a) > 0 {
		return a[0]
	}
	return f.Name
}

// setDefault sets a flag to viper's value: a list of a file, or what could have been typed.
func setDefault(fs *pflag.FlagSet, f *pflag.Flag, v *viper.Viper) error {
	if _, list := v.Get(keyOf(f)).([]any); !list {
		return fs.Set(f.Name, v.GetString(keyOf(f)))
	}
	many, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return errors.New("want one value, not a list")
	}
	f.Changed = true
	return many.Replace(v.GetStringSlice(keyOf(f)))
}

func allFlags(c *cobra.Command) map[string]bool {
	known := map[string]bool{}
	add := func(f *pflag.Flag) { known[keyOf(f)] = true }
	c.PersistentFlags().VisitAll(add)
	c.Flags().VisitAll(add)
	for _, sub := range c.Commands() {
		for n := range allFlags(sub) {
			known[n] = true
		}
	}
	return known
}

func setLogger(s *Shared, w io.Writer) {
	level := slog.LevelWarn
	switch {
	case s.Verbose:
		level = slog.LevelDebug
	case s.Quiet:
		level = slog.LevelError
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})))
}

// Main runs the command and returns the exit status; an error is one line on stderr.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return ExitDone
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", root.Name())
		return ExitInterrupted
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	switch {
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(os.Stderr, "see %s --help\n", cmd.CommandPath())
		return ExitUsage
	case errors.Is(err, ErrRefused):
		return ExitRefused
	}
	return ExitFailed
}

// NoArgs and ExactArgs are cobra's validators with errors of wrong usage.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unexpected argument %q", args[0])
	}
	return nil
}

// ExactArgs wants n arguments.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return Usagef("want %d argument(s), got %d: %s", n, len(args), cmd.UseLine())
		}
		return nil
	}
}
