package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/measure/grid"
)

// readSpec reads a spec of YAML or JSON.
func readSpec(file string) (*grid.Spec, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.Usagef("SPEC: %v", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		if b, err = yamlToJSON(b); err != nil {
			return nil, cli.Usagef("SPEC %s: %v", file, err)
		}
	}
	s, err := grid.ParseSpec(bytes.NewReader(b))
	if err != nil {
		return nil, cli.Usagef("SPEC %s: %v", file, err)
	}
	return s, nil
}

// texts are the fields of a spec whose values are texts, however a YAML author writes them: p: 512.
var texts = []string{"engine", "bench", "env", "command", "expect"}

const maxSpec = 1 << 20

func yamlToJSON(b []byte) ([]byte, error) {
	if len(b) > maxSpec {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(b), maxSpec)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return nil, err
	}
	asText(&root, false)
	var v any
	if err := root.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// asText marks the scalars below the fields of texts as strings, spelt as in the file.
func asText(n *yaml.Node, inside bool) {
	if inside && n.Kind == yaml.ScalarNode {
		n.Tag = "!!str"
	}
	for i, c := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains(texts, n.Content[i-1].Value)
		asText(c, inside || key)
	}
}
