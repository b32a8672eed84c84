package search

import "github.com/tilewright/tilewright/kernel"

// DefaultBatch is the number of candidates in a block that the default strategy was chosen with.
const DefaultBatch = 8

// NewDefault is the strategy to use: TPE with one block a first look, which repeats its leaders.
//
// It won in simulation (package sim; 200 tunes of each of four scenarios, hosts quiet and cloud,
// spreads 2x and 7x, about 400 configurations, 900 samples of screening): mean regret against the
// best of the space 1.37%, against the best it measured 0.76%; coordinate descent with restarts
// 1.42% and 1.01%, within each other's noise. Exhaustive search without a limit needs five times
// the samples for no less. False winners of all under the judge's rules: none in 480 tunes each;
// of the naive best of three 17%. search/sim/testdata/report.txt holds the table.
func NewDefault(s kernel.Space, seed uint64, limit int) (Strategy, error) {
	return NewTPE(s, seed, limit, 1)
}
