package rule

import "github.com/weirlimit/weir/internal/shed"

// Bounds of what sheds load.
const (
	MaxSheds    = 16        // rules of a set with Shed
	MaxClasses  = 16        // classes of a rule
	MaxCapacity = 1_000_000 // requests in flight at one PoP
)

// Shed is what a rule has in place of a limit: it keeps the requests in flight at one PoP within a capacity, and rejects
// the least important ones first.
type Shed struct {
	// Capacity is how many of the rule's requests may be in flight at one PoP; 1 to MaxCapacity.
	Capacity int64
	Profile  shed.Profile
	// Success is the success rate of responses that is asked for; 1 to 100 percent, 0: their status does not count.
	Success int64
	// Classes are looked at in their order, and the first one that holds counts. A request for which none
	// does is shed.Normal.
	Classes []ShedClass
	// Shares is how much of Capacity each class may find in use and still be admitted; 1 to 100 percent, 0 means
	// the default. That of shed.Critical is 100, and no share is above that of the next class.
	Shares [shed.Classes]int64
}

// ShedClass is a class and the requests that have it. Its condition is not empty, and about no percent.
type ShedClass struct {
	Class shed.Class
	When  Match
}

// ShedHit is a rule with Shed that applies to a request.
type ShedHit struct {
	Rule  int // index in the set
	Class shed.Class
	// Key is the canonical key, as in [Hit]: requests of one key are rejected together. Empty: the rule has none, and chance
	// decides; or the request lacks a part of it, and is of one client with all others that do.
	Key []byte
}

// ShedClasses are the classes of a rule; none without Shed.
func (r *Rule) ShedClasses() []ShedClass {
	if r.Shed == nil {
		return nil
	}
	return r.Shed.Classes
}

// defaultShares are the shares of a rule that states none. A share that is stated lowers the default of those below it.
var defaultShares = [shed.Classes]int64{shed.Bulk: 40, shed.Low: 60, shed.Normal: 80, shed.Critical: 100}

// Share is the share of a class, in percent, whether it is stated or not.
func (s *Shed) Share(c shed.Class) int64 {
	switch {
	case c >= shed.Critical:
		return 100
	case s.Shares[c] != 0:
		return s.Shares[c]
	}
	return min(defaultShares[c], s.Share(c+1))
}

// fill fills in the defaults.
func (s *Shed) fill() {
	for c := range shed.Class(shed.Classes) {
		s.Shares[c] = s.Share(c)
	}
}

// class is a [ShedClass] ready to be evaluated.
type class struct {
	class shed.Class
	when  matcher
}

// classes are those of a rule, ready to be evaluated; nil: it has no Shed.
func (in *Inputs) classes(s *Shed) []class {
	if s == nil {
		return nil
	}
	all := make([]class, len(s.Classes))
	for i := range all {
		all[i] = class{s.Classes[i].Class, in.matcher(&s.Classes[i].When, 0)}
	}
	return all
}

// addShed notes that the rule i, which has Shed, applies.
func (m *Matches) addShed(i int, r *evaluator, q *view) {
	hit := ShedHit{Rule: i, Class: shed.Normal}
	for c := range r.classes {
		if one := &r.classes[c]; one.when.holds(q) {
			hit.Class = one.class
			break
		}
	}
	start := len(m.keys)
	q.spelling = r.match.spelling
	if keys, ok := m.appendKey(m.keys, r.key, q); ok {
		m.keys = keys[:start+len(ShortKey(keys[start:]))] // in place
		hit.Key = m.keys[start:len(m.keys):len(m.keys)]
	}
	m.Sheds = append(m.Sheds, hit)
}

// shed writes what a rule has in place of a limit.
func (w *writer) shed(s *Shed) {
	w.field("shed").open('{').field("capacity").int(s.Capacity)
	w.enumField("profile", s.Profile.String(), shed.Slow.String())
	w.intField("success", s.Success, 0)
	if len(s.Classes) > 0 {
		w.field("classes").open('[')
		for i := range s.Classes {
			w.open('{').field("class").string(s.Classes[i].Class.String())
			w.match("match", &s.Classes[i].When)
			w.close('}')
		}
		w.close(']')
	}
	if s.Shares != defaultShares {
		w.field("shares").open('{')
		for c := shed.Critical; c > 0; c-- {
			w.field((c - 1).String()).int(s.Shares[c-1])
		}
		w.close('}')
	}
	w.close('}')
}
