package dashboard

import "testing"

// A connection on which nothing comes any more is noticed, what one sees is said to be old, and a stream that breaks comes
// back.
func TestStreamComesBack(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	s.Open("/")
	s.See("orders")
	s.region.Pause()
	s.health("unknown", "nothing has come for 10 s")
	s.See("orders")
	s.region.Resume()
	s.Lose("nothing has come for 10 s")
	s.well("silence")
	s.region.Kill()
	s.See("does not answer")
	s.region.Start()
	s.Lose("does not answer")
	s.See("orders")
	s.Bad() // it tells of calls that nobody answered
}
