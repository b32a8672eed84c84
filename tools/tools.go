//go:build tools

// Package tools pins the programs that checks and code generation use, apart from the project's own
// dependencies.
package tools

import (
	_ "honnef.co/go/tools/cmd/staticcheck"
)
