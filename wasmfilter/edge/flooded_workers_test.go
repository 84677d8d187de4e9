package edge

import "testing"

// Of a flood beyond a small bucket every worker of a PoP serves its clients: the one that fetches
// what trickles in does not keep it.
func TestWorkersShareWhatTricklesIn(t *testing.T) {
	w := newWorld(t, 4, `{"rules":[{"name":"r","key":[],"limit":{"count":100,"per":"1s","burst":15},"algorithm":"token_bucket"}]}`)
	var asked [4][]*Request
	for at := range 6000 {
		w.millisecond(4)
		asked[at%4] = append(asked[at%4], w.request(at%4, "/", "ann"))
	}
	for i := range asked {
		if admitted := admittedOf(asked[i]); admitted < 50 {
			t.Errorf("worker %d admits %d of some 600", i, admitted)
		}
	}
}
