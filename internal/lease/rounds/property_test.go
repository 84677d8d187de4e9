package rounds

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
)

// Whatever the order of the replies, whatever is lost, late or repeated, and whatever
// others take meanwhile: a group of which a member is denied is charged nothing, what is
// charged is what was granted, and everything else goes back exactly once.
func TestInterleavings(t *testing.T) {
	for range 20 { // races are rare
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t)
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				switch rapid.IntRange(0, 11).Draw(t, "step") {
				case 0:
					w.cut(t, (*Group).Skip)
				case 1: // others take a unit
					if c := w.anyCounter(t); w.left[c] > 0 {
						w.left[c]--
						w.start[c]--
					}
				case 2:
					if len(w.calls) > 0 { // the question or the reply is lost
						w.lose(t, w.anyCall(t))
					}
				case 3:
					w.again(t)
				default:
					w.deliver(t)
				}
			}
			w.cut(t, (*Group).Leave)
			for _, m := range w.members {
				w.answers = append(w.answers, m.Grant)
			}
			for len(w.calls) > 0 {
				w.deliver(t)
			}
			w.check(t)
		})
	}
}

// world is a group, the counters that its members are of, and what is on its way between
// them.
type world struct {
	group    Group
	members  []*asking
	left     []int64 // units of each counter
	start    []int64 // the same before the group, less what others took
	calls    []*call
	old      []*call // whose reply has arrived
	answers  []lease.Grant
	rejected bool // a member was denied when it was asked to Fit, and in time
}

// asking is a member, and what was charged for it.
type asking struct {
	Member
	want     lease.Want // as the machine changes it
	whole    lease.Want
	counter  int
	needs    bool
	charged  int64
	returned int64
	charges  int
	lost     int64 // of what it is charged, what no reply or give-back can account for
}

// call is a question on its way to a counter, or the reply on its way back.
type call struct {
	member *asking
	round  Round
	want   lease.Want
	done   bool // the counter has decided
	grant  lease.Grant
	fits   bool
}

// newWorld makes one to five members of one to four counters: some share one.
func newWorld(t *rapid.T) *world {
	w := &world{}
	for range rapid.IntRange(1, 4).Draw(t, "counters") {
		w.left = append(w.left, rapid.Int64Range(0, 5).Draw(t, "left"))
	}
	w.start = append(w.start, w.left...)
	n := rapid.IntRange(1, 5).Draw(t, "members")
	if n == 1 {
		w.group = Alone()
	}
	for range n {
		need := rapid.Int64Range(0, 2).Draw(t, "need")
		m := &asking{counter: w.anyCounter(t), needs: need > 0, want: lease.Want{Need: need, Waiting: need, Want: need}}
		m.whole = m.want
		w.group.Join(&m.Member)
		w.members = append(w.members, m)
		w.ask(m)
	}
	return w
}

func (w *world) anyCounter(t *rapid.T) int {
	return rapid.IntRange(0, len(w.left)-1).Draw(t, "counter")
}
func (w *world) anyCall(t *rapid.T) int { return rapid.IntRange(0, len(w.calls)-1).Draw(t, "call") }

func (w *world) ask(m *asking) {
	w.calls = append(w.calls, &call{member: m, round: m.Round, want: m.want})
}

// deliver moves a call on: to its counter, or back.
func (w *world) deliver(t *rapid.T) {
	if len(w.calls) == 0 {
		return
	}
	i := w.anyCall(t)
	c := w.calls[i]
	if !c.done {
		w.decide(t, c)
		return
	}
	w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
	w.old = append(w.old, c)
	w.reply(t, c)
}

// decide is what a counter does.
func (w *world) decide(t *rapid.T, c *call) {
	m := c.member
	left := &w.left[m.counter]
	c.done, c.fits, c.grant = true, *left >= c.want.Need, lease.Grant{Status: lease.OK, Limit: 9, Lease: 7}
	switch {
	case c.round == GiveBack:
		*left += c.want.Unused
		m.returned += c.want.Unused
		if c.want.Lease != 7 || m.returned > m.charged {
			t.Fatalf("%d come back to lease %d, %d were charged to 7", m.returned, c.want.Lease, m.charged)
		}
	case !c.fits:
		c.grant.Status = lease.Denied
	case c.round == charge:
		if w.rejected {
			t.Fatal("charged beside a denial")
		}
		c.grant.Granted = c.want.Want
		*left -= c.want.Want
		m.charged += c.want.Want
		if m.charges++; m.charges > 1 {
			t.Fatal("charged twice")
		}
	}
}

// reply hands a reply to the group.
func (w *world) reply(t *rapid.T, c *call) {
	m := c.member
	w.rejected = w.rejected || c.round == Fit && m.Waits() && m.needs && c.grant.Status == lease.Denied
	if w.group.Reply(&m.Member, &m.want, c.grant, c.fits) {
		w.ask(m)
	}
	w.advance(t)
}

func (w *world) advance(t *rapid.T) {
	for w.group.Turn() {
		for _, m := range w.members {
			waited := m.Waits()
			if w.group.Asks(&m.Member, &m.want) {
				if waited {
					t.Fatal("asked again before the reply")
				}
				w.ask(m)
			}
		}
	}
}

// lose loses a question, or its reply: the member learns that it was not decided.
func (w *world) lose(t *rapid.T, i int) {
	c := w.calls[i]
	w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
	switch {
	case c.round == GiveBack && !c.done:
		c.member.lost += c.want.Unused
	case c.round == charge:
		c.member.lost += c.grant.Granted
	}
	c.grant, c.fits = lease.Grant{Status: lease.Unavailable}, false
	w.reply(t, c)
}

// again has a reply arrive a second time: one to a question that was answered.
func (w *world) again(t *rapid.T) {
	if len(w.old) == 0 {
		return
	}
	c := w.old[rapid.IntRange(0, len(w.old)-1).Draw(t, "old")]
	if c.round == c.member.Round && !c.member.Waits() {
		w.reply(t, c)
	}
}

// cut passes all members to Skip or Leave.
func (w *world) cut(t *rapid.T, short func(*Group, *Member) bool) {
	for _, m := range w.members {
		if was := m.Grant.Status; short(&w.group, &m.Member) == (m.Grant.Status == was || was == lease.Unavailable) {
			t.Fatalf("status %d after %d", m.Grant.Status, was)
		}
	}
	w.advance(t)
}

// check compares the answers with what is charged, when nothing is on its way any more.
func (w *world) check(t *rapid.T) {
	denied := false
	for i, m := range w.members {
		denied = denied || m.needs && w.answers[i].Status == lease.Denied
	}
	used := make([]int64, len(w.left))
	for i, m := range w.members {
		g := w.answers[i]
		switch {
		case g.Status == 0 || g.Status != m.Grant.Status || g.Granted != m.Grant.Granted:
			t.Fatalf("member %d: answered %+v, now %+v", i, g, m.Grant)
		case g.Status == lease.OK && !denied && g.Granted != m.whole.Want:
			t.Fatalf("member %d is granted in part: %+v", i, g)
		case (g.Status != lease.OK || denied) && g.Granted != 0:
			t.Fatalf("member %d is granted beside a denial: %+v", i, g)
		case m.charged-m.returned != g.Granted+m.lost:
			t.Fatalf("member %d: charged %d, returned %d, granted %d, lost %d", i, m.charged, m.returned, g.Granted, m.lost)
		}
		used[m.counter] += g.Granted + m.lost
	}
	for c, n := range used {
		if w.left[c] != w.start[c]-n {
			t.Fatalf("counter %d has %d left of %d after %d", c, w.left[c], w.start[c], n)
		}
	}
}
