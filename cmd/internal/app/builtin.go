// Package app puts the parts together for the two commands: built-in backends, the host, the cache
// and the engine.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/tilewright/tilewright/internal/srcdigest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/avx512"
	"github.com/tilewright/tilewright/plugins/avxvnni"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/plugins/host"
	"github.com/tilewright/tilewright/plugins/sdk"
	"github.com/tilewright/tilewright/tuner/resolve"
)

// Builtins are the backends that this program carries, by name.
func Builtins() map[string]kernel.Backend {
	d := srcdigest.Backend
	return map[string]kernel.Backend{
		avx512.Name:  avx512.New(d(avx512.Name)),
		avxvnni.Name: avxvnni.New(d(avxvnni.Name)),
		avx2.Name:    avx2.New(d(avx2.Name)),
		generic.Name: generic.New(d(generic.Name)),
	}
}

// MaybeServe serves a built-in backend and exits, if a host started this process for that.
func MaybeServe() { sdk.MaybeServe(Builtins()) }

// Backends starts backends when they are first needed, in processes of their own.
type Backends struct {
	features kernel.Features // and caches
	info     map[string]resolve.BackendInfo
	sources  []host.Source

	mu  sync.Mutex
	set *host.Set
}

// NewBackends finds the built-in backends that this host can run, and third parties in pluginDir. What
// those say of themselves is remembered in cacheDir, "" for not at all.
func NewBackends(ctx context.Context, h *Host, pluginDir, cacheDir string) (*Backends, error) {
	b := &Backends{features: h.BackendFeatures(h.Features), info: map[string]resolve.BackendInfo{}}
	for name, be := range Builtins() {
		m, err := be.Manifest(ctx)
		if err != nil {
			return nil, err
		}
		if m.Arch != "" && m.Arch != runtime.GOARCH || !b.features.Has(m.Requires...) {
			continue
		}
		digest := srcdigest.Backend(name)
		b.info[name] = resolve.BackendInfo{Digest: digest, Version: m.Version}
		b.sources = append(b.sources, host.Builtin(name, digest))
	}
	return b, b.discover(ctx, pluginDir, cacheDir)
}

// discover adds third parties; a bad one is a warning, never a failure of the rest.
func (b *Backends) discover(ctx context.Context, dir, cacheDir string) error {
	if found, _ := filepath.Glob(filepath.Join(dir, "tilewright-backend-*")); dir == "" || len(found) == 0 {
		return nil
	}
	memo := ""
	if cacheDir != "" {
		memo = filepath.Join(cacheDir, "backends.json")
	}
	found, err := host.Discover(ctx, dir, memo, host.Options{})
	if err != nil {
		slog.Warn("plugin directory not used", "dir", dir, "why", err)
		return nil
	}
	for _, f := range found {
		if f.Err != nil {
			slog.Warn("plugin not used", "file", f.Source.Path, "why", f.Err)
			continue
		}
		if _, taken := b.info[f.Manifest.Name]; taken {
			slog.Warn("plugin not used: its name is taken by a built-in backend", "file", f.Source.Path, "name", f.Manifest.Name)
			continue
		}
		if m := f.Manifest; m.Arch != "" && m.Arch != runtime.GOARCH || !b.features.Has(m.Requires...) {
			continue
		}
		b.info[f.Manifest.Name] = resolve.BackendInfo{Digest: f.Digest, Version: f.Manifest.Version}
		b.sources = append(b.sources, f.Source)
	}
	return nil
}

// Info identifies the usable backends.
func (b *Backends) Info() map[string]resolve.BackendInfo { return b.info }

// Suite starts the backends on first use.
func (b *Backends) Suite(ctx context.Context) (*kernel.Suite, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		set, err := host.Suite(ctx, b.features, runtime.GOARCH, host.Options{}, b.sources...)
		if err != nil {
			return nil, fmt.Errorf("start backends: %w", err)
		}
		for name, err := range set.Failed {
			slog.Warn("backend not used", "backend", name, "why", err)
		}
		if len(set.Backends) == 0 {
			set.Close()
			return nil, errors.New("no backend could be started: see the log with -v")
		}
		b.set = set
	}
	return &b.set.Suite, nil
}

// Close ends the backends.
func (b *Backends) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set != nil {
		b.set.Close()
		b.set = nil
	}
}
