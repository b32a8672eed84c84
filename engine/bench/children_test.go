package bench

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Both ways to ask find a child, and no more of it once it was waited for.
func TestChildren(t *testing.T) {
	for name, list := range map[string]func(int) []int{"lists": Children, "parents": childrenByParent} {
		c := exec.Command("/bin/sh", "-c", "read x")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Skip("no shell:", err)
		}
		if got := list(os.Getpid()); !slices.Contains(got, c.Process.Pid) {
			t.Errorf("%s: %v lacks %d", name, got, c.Process.Pid)
		}
		if got := list(c.Process.Pid); len(got) != 0 {
			t.Errorf("%s: children of a shell that has none: %v", name, got)
		}
		in.Close()
		_ = c.Wait() // read fails at the end of its input
		if got := list(os.Getpid()); slices.Contains(got, c.Process.Pid) {
			t.Errorf("%s: %v still has %d", name, got, c.Process.Pid)
		}
	}
}
