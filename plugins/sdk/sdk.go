// Package sdk is the author's side of a backend: implement kernel.Backend, then
//
//	func main() { sdk.Main(backend{}) }
//
// in a program named tilewright-backend-NAME. The SDK does the rest: the RPC, logging, crash
// reports, protection of standard output, and leaving when the host is gone. A program that carries
// backends inside itself (tune, engine, test binaries) calls MaybeServe first thing in main instead.
package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Main is the whole main function of a third-party backend's program. It serves when a host starts
// it, and answers people otherwise: describe prints the manifest as JSON, --debug serves standalone
// and prints how a host can attach. It does not return. A program of several backends serves the
// one that the host names, else the first.
func Main(backends ...kernel.Backend) {
	os.Exit(run(os.Args[1:], backends, os.Stdout, os.Stderr))
}

func run(args []string, backends []kernel.Backend, stdout, stderr io.Writer) int {
	b, err := pick(os.Getenv(wire.EnvServe), backends)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	switch {
	case os.Getenv(wire.Handshake.MagicCookieKey) == wire.Handshake.MagicCookieValue:
		Serve(b)
		return 0
	case slices.Equal(args, []string{"describe"}):
		if err := describe(b, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	case slices.Equal(args, []string{"--debug"}):
		return serveDebug(b, stderr)
	}
	fmt.Fprint(stderr, usage)
	return 2
}

const usage = `This is a Tilewright backend: a plugin that tune and engine start by themselves.
Put it in the plugin directory under the name tilewright-backend-NAME, or run it with
  describe   print its manifest as JSON
  --debug    serve standalone and print how a host can attach (for a debugger)
`

// pick finds the backend of a name among those of this program, the first if the name is empty.
func pick(name string, backends []kernel.Backend) (kernel.Backend, error) {
	var names []string
	for _, b := range backends {
		m, err := manifest(b)
		if err != nil {
			return nil, err
		}
		if name == "" || m.Name == name {
			return b, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("no backend %q in this program (it has %s)", name, strings.Join(names, ", "))
}

func manifest(b kernel.Backend) (kernel.Manifest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return b.Manifest(ctx)
}

func describe(b kernel.Backend, w io.Writer) error {
	m, err := manifest(b)
	if err != nil {
		return err
	}
	if err := wire.CheckManifest(m); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(wire.Description{Protocol: wire.ProtocolVersion, Manifest: m})
}

// MaybeServe serves one of the built-in backends and exits, if a host started this process for
// that; otherwise it returns at once. Call it before anything else: in main, and in TestMain of
// every package whose tests open built-in backends.
func MaybeServe(builtins map[string]kernel.Backend) {
	name := os.Getenv(wire.EnvServe)
	if name == "" || os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
		return
	}
	b := builtins[name]
	if b == nil {
		fmt.Fprintf(os.Stderr, "no built-in backend %q in this program\n", name)
		os.Exit(1)
	}
	Serve(b)
	os.Exit(0)
}
