// Package runner is the disposable process that executes generated code for the tuner: the real
// engine on the real workload. Serve is its side, Runner the tuner's.
package runner

import (
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/preflight"
)

// Ops of the conversation.
const (
	opLoad  = "load"
	opStep  = "step"
	opBench = "bench"
	opProbe = "probe"
	opKnobs = "knobs"
	opPack  = "pack"
	opLay   = "lay"

	askLayout = "layout"
	askChoice = "choice"
)

// Ref names a model: a preset or a file.
type Ref struct {
	Preset string `json:"preset,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Load says what to load. Layouts and kernels are asked for as the engine needs them.
type Load struct {
	Model    Ref             `json:"model"`
	Numerics model.Numerics  `json:"numerics"`
	Context  int             `json:"context"`
	Knobs    kernel.Knobs    `json:"knobs"`
	CPUs     []int           `json:"cpus"`
	Host     kernel.Features `json:"host"`
}

// Loaded is what loading gave.
type Loaded struct {
	Seconds       float64 `json:"seconds"`
	WeightsBytes  int     `json:"weights_bytes"`
	BytesPerToken int     `json:"bytes_per_token"`
	MACsPerToken  int64   `json:"macs_per_token"`
}

// Planned is the answer to askChoice.
type Planned struct {
	Choice   kernel.Choice   `json:"choice"`
	Artifact kernel.Artifact `json:"artifact"`
}

// ClassPlan assigns an artifact to each layer of a class for the rows of tuning point M.
type ClassPlan struct {
	Class     model.Class `json:"class"`
	M         int         `json:"m"`
	Artifacts []string    `json:"artifacts"` // ids, parallel to Class.Layers; one for the head
}

// Step is one in-situ step: set the plans, run Warm passes untimed, then Repeat passes timed.
type Step struct {
	Test      bench.Test                 `json:"test"` // prefill of Prompt tokens, or one token after Depth
	Warm      int                        `json:"warm"`
	Repeat    int                        `json:"repeat"`
	SetOnly   bool                       `json:"set_only,omitempty"` // run no pass
	Plans     []ClassPlan                `json:"plans"`
	Artifacts map[string]kernel.Artifact `json:"artifacts"` // by id, those not sent before
}

// StepTimes are mean seconds over the timed passes.
type StepTimes struct {
	Layers [][]float64 `json:"layers"` // of the plan's region, by plan, by layer
	Pass   float64     `json:"pass"`   // of the whole pass
	// Wait is how far the workers were kept from their CPUs in the timed passes.
	Wait preflight.Wait `json:"wait"`
	// Refused are the artifacts, by id, that the engine would not run, and why. Nothing ran then.
	Refused map[string]string `json:"refused,omitempty"`
}

// Bench is Reps repetitions of a workload.
type Bench struct {
	Test bench.Test `json:"test"`
	Reps int        `json:"reps"`
}

// Benched is tokens a second of each repetition.
type Benched struct {
	Rates []float64 `json:"rates"`
}

// Pack times the packing of a layer, Rows source rows at a time.
type Pack struct {
	Layer int `json:"layer"`
	Rows  int `json:"rows"`
}

// Lay brings the matrices of a class, in the layers that it lists, into a layout.
type Lay struct {
	Class  model.Class   `json:"class"`
	Layout kernel.Layout `json:"layout"`
}
