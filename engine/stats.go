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

// ResetReceipts sets all counts to zero, those of Workers too.
func (e *Engine) ResetReceipts() {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.lib.Reset()
	e.worked = Workers{}
}

// Workers is how many workers took part in a region of the passes over one row, and over more: the most,
// 0 where no such pass ran.
type Workers struct{ Decode, Prefill int }

// Workers counts those that were handed work and reported it done since the last ResetReceipts.
func (e *Engine) Workers() Workers {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.worked
}

// RegionStats are figures of one kind of region, over all layers.
type RegionStats struct {
	Bytes int   // weight bytes
	MACs  int64 // multiply-accumulates of one row
}

// Regions returns the figures of each kind of region, by name.
func (e *Engine) Regions() map[string]RegionStats {
	out := map[string]RegionStats{}
	for _, r := range e.regions() {
		s := out[string(r.Name)]
		s.Bytes += r.Bytes()
		for _, t := range r.Segs {
			s.MACs += int64(t.N) * int64(t.K)
		}
		out[string(r.Name)] = s
	}
	return out
}

// Forks is how many parallel regions have run since the engine was made.
func (e *Engine) Forks() int64 {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.pool.Forks
}

// KVBytes is the bytes of keys and values that a decode step reads after depth tokens.
func (e *Engine) KVBytes(depth int) int {
	s, n := e.Model.Spec, 0
	for _, l := range s.Layers {
		seen := depth + 1
		if l.Window > 0 {
			seen = min(seen, l.Window)
		}
		n += 2 * seen * s.KVRows() * e.opt.Knobs.KV.Bytes()
	}
	return n
}
