package x86

import (
	"context"
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

// Layouts lists the layouts of a format, the default first: 16 lanes in 2, 1 or 4 columns.
func (b Backend) Layouts(_ context.Context, host kernel.Features, f kernel.Format) ([]kernel.Layout, error) {
	if missing := b.ISA.Supported(host); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s needs %v", kernel.ErrUnsupported, b.ID.Name, missing)
	}
	if err := checkFormat(f); err != nil {
		return nil, err
	}
	cols := []int{2, 4, 1}
	if !b.ISA.EVEX {
		cols = []int{1, 2, 4}
	}
	var out []kernel.Layout
	for _, c := range cols {
		out = append(out, kernel.Layout{Lanes: 16, Cols: c})
	}
	return out, nil
}

// checkFormat reports a format that no generator here reads.
func checkFormat(f kernel.Format) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("%w: %v", kernel.ErrUnsupported, err)
	}
	return nil
}
