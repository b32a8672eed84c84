package host

import (
	"fmt"
	"io"
)

// probe believes HWCAP.
func probe(names []string, w io.Writer) {
	for _, n := range names {
		fmt.Fprintln(w, n)
	}
}
