package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel"
)

// migrations[s] turns the JSON of a record of schema s into that of s+1. Released schemas keep theirs
// for ever, and a golden folder in testdata.
var migrations = map[int]func(Kind, map[string]any) error{}

// oldest is the oldest schema that this build reads.
func oldest() int {
	s := Schema
	for migrations[s-1] != nil {
		s--
	}
	return s
}

// upgrade takes the JSON of a record from an older schema to this one's.
func upgrade(k Kind, schema int, body []byte) ([]byte, error) {
	var rec map[string]any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&rec); err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, errors.New("no record")
	}
	for s := schema; s < Schema; s++ {
		m := migrations[s]
		if m == nil {
			return nil, fmt.Errorf("schema %d is too old: this build reads from %d", schema, oldest())
		}
		if err := m(k, rec); err != nil {
			return nil, fmt.Errorf("migrate from schema %d: %w", s, err)
		}
	}
	if key, ok := rec["key"].(map[string]any); ok {
		key["schema"] = Schema
	}
	return json.Marshal(rec)
}

// adopt looks for the newest older schema when this one's folder is missing. Its decisions and rules
// are migrated into a new folder that is renamed into place whole, so that a crash or another process
// leaves all or nothing of it; where nothing may be written they are returned instead. Artifacts are
// not taken along: another build emits its own.
func adopt(base int, abs string, a access) (map[Kind]map[string][]byte, error) {
	var st unix.Stat_t
	if unix.Fstatat(base, versionDir(Schema), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil, nil
	}
	for s := Schema - 1; s >= oldest(); s-- {
		from := a
		if a == readWrite {
			from = readOnly
		}
		old, err := openVersion(base, abs, s, from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer old.close()
		entries := old.migrated()
		if a != readWrite {
			return entries, nil
		}
		return nil, publish(base, abs, entries)
	}
	return nil, nil
}

// migrated are the usable decisions and rules of an older layer in this schema's form, by new name.
func (l *layer) migrated() map[Kind]map[string][]byte {
	out := map[Kind]map[string][]byte{}
	for _, k := range []Kind{KindDecision, KindRule} {
		out[k] = map[string][]byte{}
		names, _, err := l.names(k)
		if err != nil {
			slog.Warn("older entries not read", "kind", k, "why", err)
		}
		for _, n := range names {
			name, b, err := l.renew(k, n)
			if err != nil {
				slog.Warn("older entry not taken along", "kind", k, "entry", n, "why", err)
				continue
			}
			out[k][name] = b
		}
	}
	return out
}

func (l *layer) renew(k Kind, name string) (string, []byte, error) {
	b, err := l.read(k, name)
	if err != nil {
		return "", nil, err
	}
	if k == KindRule {
		var r Rule
		if err := unseal(b, &r); err != nil {
			return "", nil, err
		}
		b, err = seal(r)
		return fileName(kernel.KeyDigest(r.Key)), b, err
	}
	var d Decision
	if err := unseal(b, &d); err != nil {
		return "", nil, err
	}
	d.Artifacts = nil
	b, err = seal(d)
	return fileName(kernel.KeyDigest(d.Key)), b, err
}

// publish writes the folder of this schema in a place of its own and renames it into its own. Where
// another process was faster, its folder stays.
func publish(base int, abs string, entries map[Kind]map[string][]byte) error {
	tmp := tempPrefix + randomName()
	own := &layer{access: readWrite}
	at, err := own.openDir(base, tmp, filepath.Join(abs, tmp), true)
	if err != nil {
		return err
	}
	defer func() {
		unix.Close(at)
		_ = os.RemoveAll(filepath.Join(abs, tmp))
	}()
	l, err := openVersion(at, filepath.Join(abs, tmp), Schema, readWrite)
	if err != nil {
		return err
	}
	defer l.close()
	for k, list := range entries {
		for name, b := range list {
			if err := l.write(k, name, b); err != nil {
				return err
			}
		}
	}
	err = unix.Renameat(at, versionDir(Schema), base, versionDir(Schema))
	if err == unix.EEXIST || err == unix.ENOTEMPTY {
		return nil
	}
	if err == nil {
		err = unix.Fsync(base)
	}
	return err
}
