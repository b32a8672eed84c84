package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Verify lists the entries that cannot be used, and removes them from the user layer if asked.
func (s *Store) Verify(remove bool) (bad []Info, checked int, err error) {
	list, err := s.List()
	if err != nil {
		return nil, 0, err
	}
	for _, in := range list {
		if in.Problem == "" {
			continue
		}
		bad = append(bad, in)
		if remove && in.Layer == "user" && !s.opts.ReadOnly {
			if err := s.user.remove(in.Kind, fileName(in.Digest)); err != nil && !errors.Is(err, unix.ENOENT) {
				return bad, len(list), fmt.Errorf("cache: remove %s: %w", in.Digest, err)
			}
		}
	}
	return bad, len(list), nil
}

// GC removes from the user layer what is older than maxAge (0: no limit), then the oldest entries until
// at most maxBytes remain (0: no limit), and stray temporary files older than an hour. What a tune
// decided, and the artifacts that its decisions name, go last: others are emitted again in a moment. It
// returns what it removed.
func (s *Store) GC(maxAge time.Duration, maxBytes int64) ([]Info, error) {
	if s.user == nil || s.opts.ReadOnly {
		return nil, nil
	}
	if err := s.removeStrays(time.Hour); err != nil {
		return nil, err
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var mine []Info
	var total int64
	for _, in := range list {
		if in.Layer == "user" {
			mine = append(mine, in)
			total += int64(in.Bytes)
		}
	}
	needed := s.needed(mine)
	sort.SliceStable(mine, func(i, j int) bool {
		if a, b := needed[mine[i].Digest], needed[mine[j].Digest]; a != b {
			return b
		}
		return mine[i].Created.Before(mine[j].Created)
	})
	var gone []Info
	now := s.opts.Now()
	for _, in := range mine {
		old := maxAge > 0 && now.Sub(in.Created) > maxAge
		if !old && (maxBytes <= 0 || total <= maxBytes) {
			continue
		}
		if err := s.user.remove(in.Kind, fileName(in.Digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gone, fmt.Errorf("cache: remove %s: %w", in.Digest, err)
		}
		total -= int64(in.Bytes)
		gone = append(gone, in)
	}
	return gone, nil
}

// needed are the digests of usable decisions and rules, and of the artifacts that decisions name.
func (s *Store) needed(list []Info) map[string]bool {
	needed := map[string]bool{}
	for _, in := range list {
		if in.Kind == KindArtifact || in.Problem != "" {
			continue
		}
		needed[in.Digest] = true
		if in.Kind == KindRule {
			continue
		}
		b, err := s.user.read(KindDecision, fileName(in.Digest))
		var d Decision
		if err != nil || unseal(b, &d) != nil {
			continue
		}
		for _, a := range d.Artifacts {
			needed[a] = true
		}
	}
	return needed
}

func (s *Store) removeStrays(age time.Duration) error {
	for _, k := range Kinds {
		_, strays, err := s.user.names(k)
		if err != nil {
			return err
		}
		for _, n := range strays {
			var st unix.Stat_t
			if unix.Fstatat(s.user.dirs[k], n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			if s.opts.Now().Sub(time.Unix(st.Mtim.Unix())) > age {
				_ = s.user.remove(k, n)
			}
		}
	}
	all, _ := os.ReadDir(s.opts.Dir)
	for _, e := range all {
		fi, err := e.Info()
		if strings.HasPrefix(e.Name(), tempPrefix) && err == nil && fi.IsDir() && s.opts.Now().Sub(fi.ModTime()) > age {
			_ = os.RemoveAll(filepath.Join(s.opts.Dir, e.Name())) // an unfinished migration
		}
	}
	return nil
}
