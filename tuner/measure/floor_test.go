package measure

import (
	"encoding/json"
	"math"
	"testing"
)

func TestFloorRoundTrip(t *testing.T) {
	for _, f := range []Floor{
		{Noise: 0.004, Level: Normal, Blocks: 5, Kept: 20, Dropped: 1},
		{Noise: math.Inf(1), Level: Refused, Why: "unknown", Blocks: 5},
	} {
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var got Floor
		if err := json.Unmarshal(b, &got); err != nil || got != f {
			t.Errorf("%s: %+v %v", b, got, err)
		}
	}
	if json.Unmarshal([]byte(`{"kept":"x"}`), new(Floor)) == nil {
		t.Error("a text for a number was accepted")
	}
}
