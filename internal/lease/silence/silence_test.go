package silence

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// link is a region with two replicas and the aggregator, with a network between them that
// delays, reorders and loses messages, and is cut in either direction for a while.
type link struct {
	rnd        *rand.Rand
	now        limit.Micros
	region     Silence
	sure       limit.Micros // until when the region is sure of its silence
	aggregator Silence
	sent       [2]Sendings // by replica
	seq, ack   [2]uint64
	up, down   []message
	cut        [2]bool
	changes    [2]limit.Micros // when the cut ends or the next one begins
	saved      Silence         // what the aggregator had at its last save
	starts     limit.Micros    // while it is down: when it starts; 0: it runs
	fault      string
}

type message struct {
	replica  int
	seq, ack uint64
	arrives  limit.Micros
}

func newLink(seed uint64, fault string) *link {
	l := &link{rnd: rand.New(rand.NewPCG(seed, 1)), now: limit.Second, fault: fault}
	l.region, l.aggregator = New(l.now, false), New(l.now-After, true)
	l.saved = l.aggregator
	return l
}

const linkStep = 10 * limit.Millisecond

// step lets the time pass, and delivers what is due.
func (l *link) step(cuts bool) {
	l.now += linkStep
	for d := range l.cut {
		if cuts && l.now >= l.changes[d] {
			l.cut[d] = !l.cut[d]
			l.changes[d] = l.now + limit.Micros(l.rnd.IntN(8000))*limit.Millisecond
		}
	}
	for r := range l.seq {
		if l.rnd.IntN(30) == 0 {
			l.seq[r]++
			l.up = l.send(0, cuts, l.up, message{replica: r, seq: l.seq[r], ack: l.ack[r]})
		}
	}
	if cuts {
		l.restart()
	}
	l.up = l.deliver(l.up, l.arrives)
	l.down = l.deliver(l.down, l.replied)
	l.sure = l.now
}

// restart stops the aggregator now and then, in order or not, and starts it after a while. It
// saves once a second, and at an orderly end.
func (l *link) restart() {
	switch ends, orderly := l.rnd.IntN(2000) == 0, l.rnd.IntN(2) == 0; {
	case l.starts == 0 && (ends && orderly || l.now%limit.Second == 0):
		since, past := l.aggregator.Known()
		l.saved = Resume(since, past)
		fallthrough
	case l.starts == 0:
		if ends {
			l.starts = l.now + limit.Micros(l.rnd.IntN(6000))*limit.Millisecond
		}
	case l.now >= l.starts:
		l.starts, l.sent = 0, [2]Sendings{}
		if l.aggregator = l.saved; l.fault == "restarts anew" {
			l.aggregator = New(l.now, true)
		}
	}
}

// send puts a message on its way, unless it is lost.
func (l *link) send(direction int, losses bool, way []message, m message) []message {
	if l.cut[direction] || losses && l.rnd.IntN(10) == 0 {
		return way
	}
	m.arrives = l.now + limit.Micros(l.rnd.IntN(250))*limit.Millisecond
	if losses && l.rnd.IntN(20) == 0 {
		m.arrives += limit.Micros(l.rnd.IntN(10_000)) * limit.Millisecond
	}
	return append(way, m)
}

func (l *link) deliver(way []message, to func(message)) (rest []message) {
	for _, m := range way {
		if m.arrives <= l.now {
			to(m)
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

// arrives is the aggregator's side of a call.
func (l *link) arrives(m message) {
	if l.starts > 0 {
		return
	}
	if at, ok := l.sent[m.replica].Before(m.ack); ok {
		if l.fault == "counts from arrival" {
			at = l.now
		}
		l.aggregator.NoteSign(at, l.now)
	}
	l.sent[m.replica].Note(m.seq, l.now)
	l.down = l.send(1, l.changes[0] > 0, l.down, m)
}

// replied is the region's side of a reply.
func (l *link) replied(m message) {
	if l.fault != "forgets receipts" {
		l.region.NoteSign(l.now, l.sure)
	}
	l.ack[m.replica] = max(l.ack[m.replica], m.seq)
}

// takes reports whether the region takes its share of a window that began at start.
func (l *link) takes(start limit.Micros) bool {
	if l.fault == "takes at once" {
		start += limit.Second
	}
	return start <= l.sure && l.region.Covers(start)
}

// overlooked runs a link for two minutes with windows of half a second. It returns how many of them the
// region took its share of, and in how many steps the aggregator did not withhold what the region took.
func (l *link) overlooked() (taken, wrong int) {
	const window = limit.Second / 2
	var shared []limit.Micros
	for range 12_000 {
		l.step(true)
		first := max(limit.Second, l.now-20*limit.Second)
		for start := first - first%window + window; start <= l.now; start += window {
			if !l.takes(start) {
				continue
			}
			if !l.aggregator.Covers(start) || !l.aggregator.Lately(l.now-window, l.now) && l.now-start < window {
				wrong++
			}
			if !slices.Contains(shared, start) {
				shared = append(shared, start)
			}
		}
	}
	return len(shared), wrong
}

// Whenever a region takes its share of a window, the aggregator withholds it from the others,
// whatever the network does.
func TestSilenceIsContained(t *testing.T) {
	var taken int
	for seed := range uint64(60) {
		n, wrong := newLink(seed, "").overlooked()
		if taken += n; wrong > 0 {
			t.Fatalf("seed %d: in %d steps of 12000 the aggregator did not withhold what the region took", seed, wrong)
		}
	}
	if taken < 500 {
		t.Errorf("only %d windows were taken: the test shows little", taken)
	}
}

// The test above finds what it is for.
func TestSilenceFaultsAreFound(t *testing.T) {
	for _, fault := range []string{"counts from arrival", "takes at once", "forgets receipts", "restarts anew"} {
		var wrong int
		for seed := uint64(0); seed < 60 && wrong == 0; seed++ {
			_, wrong = newLink(seed, fault).overlooked()
		}
		if wrong == 0 {
			t.Errorf("%s: not found", fault)
		}
	}
}

// A region that is connected is not silent, and one that is cut off is after After.
func TestSilenceOfConnected(t *testing.T) {
	l := newLink(1, "")
	for range 300 {
		l.step(false)
	}
	for range 3000 {
		if l.step(false); l.aggregator.Covers(l.now) || l.region.Covers(l.now) {
			t.Fatalf("silent at %d although connected", l.now)
		}
	}
	for _, direction := range []int{0, 1} {
		l.cut = [2]bool{}
		l.cut[direction] = true
		for range 400 {
			l.step(false)
		}
		if !l.aggregator.Covers(l.now) || !l.region.Covers(l.now) {
			t.Errorf("cut in direction %d: not silent after 4 s", direction)
		}
		l.cut = [2]bool{}
		for range 200 {
			l.step(false)
		}
		if l.aggregator.Covers(l.now) || l.region.Covers(l.now) {
			t.Errorf("silent 2 s after the cut in direction %d ended", direction)
		}
	}
}

// What cannot be remembered makes the aggregator's silence longer and the region's shorter.
func TestSilencesBeyondTheBound(t *testing.T) {
	wide, narrow := New(1, true), New(1, false)
	const apart = 10 * limit.Second
	for i := range limit.Micros(mostSilences + 10) {
		at := (i + 1) * apart
		wide.NoteSign(at, at)
		narrow.NoteSign(at, at)
	}
	for i := range limit.Micros(mostSilences + 10) {
		silent, connected := i*apart+5*limit.Second, i*apart+limit.Second
		if !wide.Covers(silent) {
			t.Errorf("the wide one forgot %d", silent)
		}
		if narrow.Covers(connected) || narrow.Covers(silent) != (i >= 10) {
			t.Errorf("the narrow one at %d and %d", connected, silent)
		}
	}
	if len(wide.past) != mostSilences || len(narrow.past) != mostSilences {
		t.Errorf("%d and %d silences are kept", len(wide.past), len(narrow.past))
	}
}

// An acknowledgement counts for a time before the reply was sent, or not at all.
func TestSendings(t *testing.T) {
	var s Sendings
	rnd := rand.New(rand.NewPCG(1, 2))
	now, arrived := limit.Second, map[uint64]limit.Micros{}
	for seq := uint64(1); seq < 2000; seq++ {
		now += limit.Micros(rnd.IntN(30)) * limit.Millisecond
		if rnd.IntN(5) > 0 {
			s.Note(seq, now)
			arrived[seq] = now
		}
		ack := seq - uint64(rnd.IntN(int(min(seq, 300))))
		at, ok := s.Before(ack)
		if sent := arrived[ack]; ok && sent > 0 && (at > sent || sent-at > sampleEvery+30*limit.Millisecond) {
			t.Fatalf("the reply to %d was sent after %d, not %d", ack, sent, at)
		}
		if seq-ack < 20 && seq > 100 && arrived[ack] > 0 && !ok {
			t.Fatalf("nothing is known of %d, the newest is %d", ack, seq)
		}
	}
	if _, ok := s.Before(5000); ok {
		t.Error("a call that has not arrived was answered elsewhere")
	}
}

// Many short silences, as of an aggregator that starts again every day, do not hide that a region was
// connected when a long window began, though a silence came before that.
func TestManySilences(t *testing.T) {
	s := New(-2*limit.Hour, true)
	s.NoteSign(-limit.Hour, -limit.Hour)
	s.NoteSign(limit.Hour, 0)
	for day := range limit.Micros(200) {
		at := (day + 1) * limit.Day
		s.NoteSign(at-limit.Minute, at-limit.Minute)
		s.NoteSign(at, at)
		if !s.Covers(-limit.Hour - limit.Second) {
			t.Fatalf("day %d: a silence is forgotten", day)
		}
		if s.Covers(0) {
			t.Fatalf("day %d: the region was connected when the window began", day)
		}
	}
}

// What is silent for ever before, after many later silences, stays so.
func TestSilentForEver(t *testing.T) {
	var past []Span
	for i := range limit.Micros(mostSilences) {
		past = append(past, Span{i * 10 * limit.Second, (i*10 + 1) * limit.Second})
	}
	s := Resume(0, past)
	s.NoteSign(1000*limit.Second, 1000*limit.Second)
	for at := limit.Micros(0); at < 1000*limit.Second; at += limit.Second {
		if !s.Covers(at) {
			t.Fatalf("not silent at %v s", at/limit.Second)
		}
	}
}

// And covers what both cover, and may cover more only where too many silences are to be remembered.
func TestAnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(most int) Silence {
		s, at := New(-After, true), limit.Micros(0)
		for range rnd.IntN(most) {
			at += limit.Micros(1+rnd.IntN(20)) * limit.Second
			s.NoteSign(at-limit.Micros(rnd.IntN(2))*limit.Second, at)
		}
		return s
	}
	for range 2000 {
		most := 1 + rnd.IntN(30) // both together have fewer than are remembered
		a, b := draw(most), draw(most)
		both := And(a, b)
		for at := limit.Micros(0); at < 1500*limit.Second; at += limit.Second / 2 {
			if got, want := both.Covers(at), a.Covers(at) && b.Covers(at); got != want {
				t.Fatalf("at %v: %t, want %t: %+v and %+v are %+v", at, got, want, a, b, both)
			}
		}
	}
}
