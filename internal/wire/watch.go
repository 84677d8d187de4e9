package wire

// ReportResponse is a ReportResponse.
type ReportResponse struct {
	Protocol uint32
	WatchMs  uint32
	Keys     bool
	Tap      *Tap // nil: there is none
}

// Tap is a Tap. Key points into the decoded input.
type Tap struct {
	Rule      string
	Key       []byte
	Outcome   Outcome
	PerSecond uint32
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *ReportResponse) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendUint(dst, 2, uint64(m.WatchMs))
	dst = appendBool(dst, 3, m.Keys)
	if m.Tap == nil {
		return dst
	}
	dst = append(dst, 4<<3|typeBytes, 0)
	start := len(dst)
	dst = appendBytes(dst, 1, m.Tap.Rule)
	dst = appendBytes(dst, 2, m.Tap.Key)
	dst = appendUint(dst, 3, uint64(m.Tap.Outcome))
	dst = appendUint(dst, 4, uint64(m.Tap.PerSecond))
	return closeNested(dst, start)
}

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *ReportResponse) Decode(b []byte) error {
	*m = ReportResponse{}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeVarint:
			m.WatchMs = uint32(r.num)
		case 3<<3 | typeVarint:
			m.Keys = r.num != 0
		case 4<<3 | typeBytes:
			if m.Tap == nil {
				m.Tap = new(Tap) // several are one, as protobuf requires
			}
			m.Tap.decode(&r)
		}
	}
	return r.failure("ReportResponse")
}

func (t *Tap) decode(r *reader) {
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeBytes:
			t.Rule = r.text(t.Rule)
		case 2<<3 | typeBytes:
			t.Key = r.bytes()
		case 3<<3 | typeVarint:
			t.Outcome = Outcome(known(r.num, uint64(OutcomeWouldDeny)))
		case 4<<3 | typeVarint:
			t.PerSecond = uint32(r.num)
		}
	}
	r.leave(outer)
}

// LongestWatch is the longest time for which a holder takes it that somebody watches.
const LongestWatch = 60_000 // ms

// Bounds on what [ReportRequest.Check] takes, in bytes. Those of rules and of the PoP are
// [MaxRuleName] and [MaxPop].
const (
	MaxShownKey     = 128 // of a key
	MaxOverrideName = 64
	MaxRegionName   = 64
	MaxVersion      = 64  // of programs and of rules
	MaxProblem      = 200 // what is wrong, in words
	mostInterval    = 60_000
	mostCount       = 1<<53 - 1
)

// Check is the first field that a granter refuses, "" if there is none.
func (m *ReportRequest) Check() (field string) {
	c := &bounds{}
	c.holds("holder", len(m.Holder) == 16)
	c.text("pop", m.Pop, MaxPop)
	c.text("region", m.Region, MaxRegionName)
	c.holds("interval_ms", m.IntervalMs <= mostInterval)
	for i := range m.Members {
		m.Members[i].check(c)
	}
	for i := range m.Keys {
		m.Keys[i].check(c, "keys")
	}
	for i := range m.Denied {
		m.Denied[i].check(c, "denied")
	}
	for _, u := range m.Rules {
		c.text("rules.rule", u.Rule, MaxRuleName)
		c.numbers("rules", u.Matched, u.NoKey, u.Admitted, u.Denied, u.ShadowDenied)
	}
	for _, d := range m.Decisions {
		c.text("decisions.rule", d.Rule, MaxRuleName)
		c.text("decisions.override", d.Override, MaxOverrideName)
		c.holds("decisions.key", len(d.Key) <= MaxShownKey)
		c.holds("decisions.outcome", d.Outcome != 0)
		c.holds("decisions.remaining", d.Remaining <= MaxUnits)
		c.numbers("decisions", d.RetryAfterMs, d.AgeMs)
	}
	return c.field
}

func (m *Member) check(c *bounds) {
	c.holds("members.kind", m.Kind != 0)
	c.text("members.region", m.Region, MaxRegionName)
	c.text("members.name", m.Name, MaxPop)
	c.holds("members.holder", len(m.Holder) == 0 || len(m.Holder) == 16)
	c.text("members.version", m.Version, MaxVersion)
	c.text("members.rules_version", m.RulesVersion, MaxVersion)
	c.text("members.error", m.Error, MaxProblem)
	c.text("members.redis", m.Redis, MaxProblem)
	c.holds("members.reserve_per_mille", m.ReservePerMille <= 1000)
	c.numbers("members", m.RulesAgeMs, m.AgeMs, m.DegradedMs, m.Keys, m.Places, m.ErrorAgeMs, m.SilentMs)
}

func (k *KeyRate) check(c *bounds, list string) {
	c.text(list+".rule", k.Rule, MaxRuleName)
	c.text(list+".override", k.Override, MaxOverrideName)
	c.holds(list+".key", len(k.Key) <= MaxShownKey)
	c.holds(list+".over", k.Over <= k.Count)
	c.numbers(list, k.Count)
}

// bounds finds the first field beyond its bounds.
type bounds struct{ field string }

func (c *bounds) holds(field string, ok bool) {
	if !ok && c.field == "" {
		c.field = field
	}
}

func (c *bounds) text(field, text string, most int) { c.holds(field, len(text) <= most) }

func (c *bounds) numbers(field string, all ...uint64) {
	for _, n := range all {
		c.holds(field, n <= mostCount)
	}
}
