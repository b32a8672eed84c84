package host

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A third party's program is what was hashed: one that was written to since is not started again under the
// old identity.
func TestExchangedBackendIsNotStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tilewright-backend-good")
	copyOf(t, "/proc/self/exe", path)
	src, err := External(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), src, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := emit(t, p, 1); err != nil {
		t.Fatal(err)
	}
	<-p.turn
	p.stop()
	p.turn <- struct{}{}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("another build")
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := emit(t, p, 2); err == nil || !strings.Contains(err.Error(), "changed while") {
		t.Errorf("a program that was exchanged: %v", err)
	}
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err == nil {
		_, err = io.Copy(out, in)
		err2 := out.Close()
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
