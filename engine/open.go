package engine

import (
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/model"
)

// Open maps a GGUF file and describes its model; the weights are read by Load. Closing the model
// closes the file.
func Open(path string) (*model.Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := model.FromGGUF(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

// Preset is a model of a published shape with pseudo-random weights.
func Preset(name string) (*model.Model, error) {
	s, err := model.Preset(name)
	if err != nil {
		return nil, err
	}
	return &model.Model{Spec: s}, nil
}
