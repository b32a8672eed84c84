package engine

// Stats are figures of a loaded engine.
type Stats struct {
	LoadStats
	BytesPerToken int   `json:"bytes_per_token"` // weight bytes streamed by a decode step, head included
	MACsPerToken  int64 `json:"macs_per_token"`  // of the layers' linear products
}

// Stats returns the engine's figures.
func (e *Engine) Stats() Stats {
	e.turn.Lock()
	defer e.turn.Unlock()
	s := Stats{LoadStats: e.loaded, MACsPerToken: e.Model.Spec.MACs()}
	for _, r := range e.regions() {
		s.BytesPerToken += r.Bytes()
	}
	return s
}

// Receipts lists what ran since the last ResetReceipts.
func (e *Engine) Receipts() []Receipt { return e.lib.Receipts() }

// ResetReceipts sets all counts to zero.
func (e *Engine) ResetReceipts() { e.lib.Reset() }

// RegionBytes is the weight bytes that a decode step streams in each kind of region, over all layers.
func (e *Engine) RegionBytes() map[string]int {
	out := map[string]int{}
	for _, r := range e.regions() {
		out[string(r.Name)] += r.Bytes()
	}
	return out
}
