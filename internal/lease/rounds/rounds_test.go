package rounds

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// A trace has a step on each line, and what follows from it:
//
//	a fits | a denied | a 3 | a away    a reply to a: its need fits, is denied, so many units
//	                                    are granted, or the counter could not decide
//	skip | leave                      the caller goes on without the rest, or leaves
//	=> charge a b | return a            questions to the members
//	=> over a:3 b:denied                the answers
var traces = []struct{ name, members, trace string }{
	{"all fit, and all are charged", "a b", `
		b fits
		a fits    => charge a b
		a 1
		b 1       => over a:1 b:1`},
	{"others are faster: what was charged goes back", "a b c", `
		a fits
		b fits
		c fits    => charge a b c
		c 1
		b denied
		a 1       => return a c
		c 0
		a 0       => over a:0 b:denied c:0`},
	{"a give-back that is lost grants nothing all the same", "a b", `
		a fits
		b fits    => charge a b
		a 1
		b denied  => return a
		a away    => over a:0 b:denied`},
	{"only what is needed can be denied", "a b0", `
		a fits
		b0 fits   => charge a b0
		b0 denied
		a 1       => over a:1 b0:denied`},
	{"what asks for nothing is not charged", "a b-", `
		a fits
		b- fits   => charge a
		a 1       => over a:1 b-:0`},
	{"a late denial comes too late", "a b", `
		a fits
		skip    => charge a
		b denied
		a 1       => over a:1 b:away`},
	{"who leaves during the charge gets what is charged", "a b", `
		a fits
		b fits    => charge a b
		a 1
		leave     => over a:1 b:away
		b 1       => return b
		b 0`},
	{"a late grant to one that was alone goes back once", "a", `
		leave     => over a:away
		a 5       => return a
		a 0
		a 5`},
	{"a late grant of nothing to one that was alone does not go back", "a", `
		leave     => over a:away
		a 0`},
	{"what a holder had before is not given back", "a b c-", `
		a fits
		b fits
		c- 2      => charge a b
		a 1
		b denied  => return a
		a 0       => over a:0 b:denied c-:2`},
}

func TestTraces(t *testing.T) {
	for _, c := range traces {
		t.Run(c.name, func(t *testing.T) {
			p := newPlay(strings.Fields(c.members))
			for _, line := range strings.Split(strings.TrimSpace(c.trace), "\n") {
				step, want, _ := strings.Cut(line, "=>")
				if got := p.step(strings.Fields(step)); got != strings.TrimSpace(want) {
					t.Fatalf("%s => %s, want %s", strings.TrimSpace(step), got, want)
				}
			}
			if p.over == "" || p.over != p.answers() {
				t.Errorf("%s became %s", p.over, p.answers())
			}
		})
	}
}

// play is a group whose counters are in the trace.
type play struct {
	group   Group
	names   []string
	members []Member
	wants   []lease.Want
	over    string // the answers when it was over
}

// newPlay makes members that need a unit each: with "0" in its name a member only wants
// one, with "-" it asks for nothing.
func newPlay(names []string) *play {
	p := &play{names: names, members: make([]Member, len(names)), wants: make([]lease.Want, len(names))}
	if len(names) == 1 {
		p.group = Alone()
	}
	for i, name := range names {
		p.group.Join(&p.members[i])
		p.wants[i] = lease.Want{Need: 1, Waiting: 1, Want: 1, Overdrawn: 7}
		if strings.HasSuffix(name, "0") {
			p.wants[i] = lease.Want{Want: 1}
		}
		if strings.HasSuffix(name, "-") {
			p.wants[i] = lease.Want{}
		}
	}
	return p
}

// step plays a line, and returns what follows from it.
func (p *play) step(words []string) string {
	late := ""
	for i := range p.members {
		m, w := &p.members[i], &p.wants[i]
		switch words[0] {
		case "skip":
			p.group.Skip(m)
		case "leave":
			p.group.Leave(m)
		case p.names[i]:
			g := lease.Grant{Status: lease.OK, Limit: 10}
			switch words[1] {
			case "denied":
				g.Status = lease.Denied
			case "away":
				g.Status = lease.Unavailable
			case "fits":
			default:
				g.Granted, _ = strconv.ParseInt(words[1], 10, 64)
			}
			if p.group.Reply(m, w, g, words[1] == "fits") {
				late = " " + p.names[i]
			}
		}
	}
	if late != "" {
		return "return" + late
	}
	return p.advance()
}

func (p *play) advance() string {
	for p.group.Turn() {
		asked := ""
		for i := range p.members {
			if p.group.Asks(&p.members[i], &p.wants[i]) {
				asked += " " + p.names[i]
			}
		}
		if p.group.Round == Over {
			p.over = p.answers()
			return p.over
		}
		if asked != "" {
			return map[Round]string{charge: "charge", GiveBack: "return"}[p.group.Round] + asked
		}
	}
	return ""
}

func (p *play) answers() string {
	answers := "over"
	for i := range p.members {
		switch g := p.members[i].Grant; g.Status {
		case lease.OK:
			answers += fmt.Sprintf(" %s:%d", p.names[i], g.Granted)
		case lease.Denied:
			answers += " " + p.names[i] + ":denied"
		default:
			answers += " " + p.names[i] + ":away"
		}
	}
	return answers
}

// The second question is without what the first has settled, and the third gives back to
// the lease of the second. A holder of slots keeps those that it has.
func TestQuestions(t *testing.T) {
	var g Group
	var m [2]Member
	w := [2]lease.Want{
		{Need: 1, Waiting: 2, Want: 8, Next: true, Unused: 5, Lease: 3, Overdrawn: 4, Debt: 9, Denied: 6, Fresh: true, Holding: 2},
		{Need: 1, Waiting: 1, Want: 1},
	}
	for i := range m {
		g.Join(&m[i])
	}
	for i := range m {
		g.Reply(&m[i], &w[i], lease.Grant{Status: lease.OK}, true)
	}
	for g.Turn(); !g.Asks(&m[0], &w[0]) || !g.Asks(&m[1], &w[1]); {
		t.Fatal("not charged")
	}
	if want := (lease.Want{Need: 1, Waiting: 2, Want: 8, Next: true, Holding: 2}); w[0] != want {
		t.Errorf("charge %+v, want %+v", w[0], want)
	}
	g.Reply(&m[0], &w[0], lease.Grant{Status: lease.OK, Granted: 8, Lease: 11, Limit: 100}, false)
	g.Reply(&m[1], &w[1], lease.Grant{Status: lease.Denied}, false)
	if g.Turn(); !g.Asks(&m[0], &w[0]) || g.Asks(&m[1], &w[1]) {
		t.Fatal("not given back")
	}
	if want := (lease.Want{Unused: 8, Lease: 11, Want: 2, Holding: 2}); w[0] != want {
		t.Errorf("give back %+v, want %+v", w[0], want)
	}
	if want := (lease.Grant{Status: lease.OK, Granted: 2, Limit: 100}); m[0].Grant != want {
		t.Errorf("answered %+v, want %+v", m[0].Grant, want)
	}
}
