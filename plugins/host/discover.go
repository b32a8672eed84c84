package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sourcegraph/conc/iter"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Found is what Discover says of one file.
type Found struct {
	Source   Source
	Manifest kernel.Manifest
	Digest   string // identity: sha256 of the file, and of the environment that it declares where any is set
	Err      error  // why it cannot be used
	memory   memory // zero if it is not to be remembered
}

// Discover finds the third-party backends of a directory and reports each by itself: one bad backend
// never hides the rest. A directory that does not exist holds none. Each is started once for its
// manifest, unless it is remembered; memo names the file for that, "" for none.
func Discover(ctx context.Context, dir, memo string, o Options) ([]Found, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), wire.BinaryPrefix) && !e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	known := recall(memo)
	found := iter.Map(paths, func(path *string) Found { return probe(ctx, *path, known, o) })
	known.keep(memo, found)
	return found, nil
}

func probe(ctx context.Context, path string, known remembered, o Options) Found {
	src, err := External(path)
	if err != nil {
		return Found{Source: Source{Path: path}, Err: err}
	}
	if f, ok := known.find(src); ok {
		return f
	}
	began := o.withDefaults().now()
	p, err := Open(ctx, src, o)
	if err != nil {
		return Found{Source: src, Err: err}
	}
	defer p.Close()
	f := Found{Source: src, Manifest: p.man, Digest: p.id.Digest}
	if p.src.Reattach == nil && p.exe.identity().settledAt(began) {
		f.memory = memory{p.exe.identity(), p.declares, p.id.Digest, p.man}
	}
	return f
}
