package srcdigest

import (
	"os"
	"testing"
)

func TestDigestsAreCurrent(t *testing.T) {
	root := os.DirFS("../..")
	for _, f := range Folders {
		sum, err := Sum(root, f)
		if err != nil {
			t.Fatal(err)
		}
		if digests[f] != sum {
			t.Errorf("the digest of %s is stale: run go generate ./internal/srcdigest", f)
		}
	}
}
