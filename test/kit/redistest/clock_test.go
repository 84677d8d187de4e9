package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// ahead is by how much a server's clock is ahead, surely between two times, as a command or a script reads it.
func (s *Server) ahead(command ...any) (least, most time.Duration) {
	s.t.Helper()
	sent := time.Now()
	reply := s.Do(command...).([]any)
	received := time.Now()
	seconds, err1 := strconv.ParseInt(fmt.Sprint(reply[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(reply[1]), 10, 64)
	if err1 != nil || err2 != nil {
		s.t.Fatalf("%v: %v", command, reply)
	}
	shown := time.Unix(seconds, micros*1000)
	return shown.Sub(received) - time.Microsecond, shown.Sub(sent) + time.Microsecond
}

// A server's clock is where the test sets it, while it runs and from its start, for commands and
// for scripts. Nodes of a cluster that start with wrong clocks find each other, and replicate.
func TestClock(t *testing.T) {
	t.Parallel()
	right, wrong := NewClock(t), NewClock(t)
	one := StartWith(t, wrong.Option())
	wrong.Set(time.Hour)
	c := StartCluster(t, 2, 1, wrong.Option())
	for _, s := range append(c.Nodes, one, StartWith(t, right.Option())) {
		for _, offset := range []time.Duration{time.Hour, -time.Hour, 0} {
			wrong.Set(offset)
			if s.Argv[1] == "LD_PRELOAD="+right.shim {
				offset = 0
			}
			for _, command := range [][]any{{"TIME"}, {"EVAL", "return redis.call('TIME')", 0}} {
				if least, most := s.ahead(command...); least > offset || most < offset {
					t.Errorf("%s: the clock of %v is ahead by %v to %v, want %v", s.Name, command, least, most, offset)
				}
			}
		}
	}
}
