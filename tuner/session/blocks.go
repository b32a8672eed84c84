package session

// Blocks says how many of the blocks that a stage measured counted. The others were disturbed, and
// dropped whatever they held.
type Blocks struct {
	Stage string `json:"stage"`
	Kept  int    `json:"kept"`
	Of    int    `json:"of"`
	Why   string `json:"why,omitempty"` // of the block dropped last
}

// tallied is a watch that counts by stage.
type tallied struct {
	Watch
	stage string
	res   *Result
}

// Disturbed ends a block and counts it.
func (w *tallied) Disturbed(mark any) string {
	why := w.Watch.Disturbed(mark)
	bs := w.res.Blocks
	if n := len(bs); n == 0 || bs[n-1].Stage != w.stage {
		bs = append(bs, Blocks{Stage: w.stage})
	}
	b := &bs[len(bs)-1]
	b.Of++
	if why == "" {
		b.Kept++
	} else {
		b.Why = why
	}
	w.res.Blocks = bs
	return why
}
