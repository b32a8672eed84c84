package main

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// Output that could not be written is not exit status 0.
func TestLogitsThatCouldNotBeWritten(t *testing.T) {
	c := &cobra.Command{}
	c.SetOut(full{})
	if err := printLogits(c, []any{[]float32{1, 2}}, true); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
