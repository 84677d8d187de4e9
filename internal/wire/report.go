package wire

// ReportRequest is a ReportRequest of a PoP, which shows one member: itself. Package quotav1 reads it.
type ReportRequest struct {
	Protocol    uint32
	ProtocolMax uint32
	Holder      []byte
	Worker      uint64
	Pop         string
	Region      string
	Member      Member
	Keys        []KeyRate
	Denied      []KeyRate
	Rules       []RuleUse
	Decisions   []Decision
	Trials      []TrialKeys
	KeysMs      uint32
}

// Member is a Member, but for what the region knows by itself.
type Member struct {
	Version         string
	RulesVersion    string
	RulesRevision   uint64
	RulesAgeMs      uint64
	AgeMs           uint64
	DegradedMs      uint64
	Keys            uint64
	Places          uint64
	Error           string
	ErrorAgeMs      uint64
	ReservePerMille uint32
}

// KeyRate is a KeyRate.
type KeyRate struct {
	Rule     string
	Override string
	Key      []byte
	Count    uint64
	Over     uint64
}

// RuleUse is a RuleUse.
type RuleUse struct {
	Rule         string
	Matched      uint64
	NoKey        uint64
	Admitted     uint64
	Denied       uint64
	ShadowDenied uint64
	AdmittedRate uint64
	DeniedRate   uint64

	Fallback, Shed, ShadowAdmitted uint64
}

// TrialKeys is a TrialKeys.
type TrialKeys struct {
	Rule      string
	Registers []byte
}

// Outcome is an Outcome. The zero value stands for none in a decision, and for any in a tap.
type Outcome uint8

// The outcomes.
const (
	OutcomeAdmitted Outcome = 1 + iota
	OutcomeDenied
	OutcomeUnavailable
	OutcomeWouldDeny
)

// Decision is a Decision.
type Decision struct {
	Rule         string
	Override     string
	Key          []byte
	Outcome      Outcome
	Remaining    uint64
	RetryAfterMs uint64
	AgeMs        uint64
}

// Bounds on reports beside those of other messages.
const (
	MaxReport    = 256 << 10 // bytes of a ReportRequest
	MaxListed    = 4096      // items of each of its lists
	MaxDecisions = 1000      // decisions that a tap gets in a second
	MaxVersion   = 64        // bytes of the version of a program, or of rules
	MaxProblem   = 200       // bytes of what is wrong, in words
	LongestWatch = 60_000    // ms for which a holder takes it that somebody watches
)

// Encode returns the encoded message. Of its lists it leaves out what would make it longer than [MaxReport].
func (m *ReportRequest) Encode() []byte {
	dst := appendUint(nil, 1, uint64(m.Protocol))
	dst = appendUint(dst, 2, uint64(m.ProtocolMax))
	dst = appendBytes(dst, 3, m.Holder)
	dst = appendUint(dst, 4, m.Worker)
	dst = appendBytes(dst, 5, m.Pop)
	dst = appendBytes(dst, 6, m.Region)
	dst = appendList(dst, 8, []Member{m.Member}, (*Member).append)
	dst = appendList(dst, 9, m.Keys, (*KeyRate).append)
	dst = appendList(dst, 10, m.Denied, (*KeyRate).append)
	dst = appendList(dst, 11, m.Rules, (*RuleUse).append)
	dst = appendList(dst, 13, m.Trials, (*TrialKeys).append)
	dst = appendUint(dst, 14, uint64(m.KeysMs))
	return appendList(dst, 12, m.Decisions, (*Decision).append)
}

// appendList appends a field of nested messages, as many as there may be.
func appendList[T any](dst []byte, number byte, list []T, one func(*T, []byte) []byte) []byte {
	for i := range list[:min(len(list), MaxListed)] {
		before := len(dst)
		dst = append(dst, number<<3|typeBytes, 0)
		if dst = closeNested(one(&list[i], dst), before+2); len(dst) > MaxReport {
			return dst[:before]
		}
	}
	return dst
}

func (m *Member) append(dst []byte) []byte {
	dst = appendBytes(dst, 6, m.Version)
	dst = appendBytes(dst, 7, m.RulesVersion)
	dst = appendUint(dst, 8, m.RulesRevision)
	dst = appendUint(dst, 9, m.RulesAgeMs)
	dst = appendUint(dst, 10, m.AgeMs)
	dst = appendUint(dst, 11, m.DegradedMs)
	dst = appendUint(dst, 12, m.Keys)
	dst = appendUint(dst, 13, m.Places)
	dst = appendBytes(dst, 14, m.Error)
	dst = appendUint(dst, 16, m.ErrorAgeMs)
	return appendUint(dst, 17, uint64(m.ReservePerMille))
}

func (k *KeyRate) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, k.Rule)
	dst = appendBytes(dst, 2, k.Override)
	dst = appendBytes(dst, 3, k.Key)
	dst = appendUint(dst, 4, k.Count)
	return appendUint(dst, 5, k.Over)
}

func (u *RuleUse) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, u.Rule)
	dst = appendUint(dst, 2, u.Matched)
	dst = appendUint(dst, 3, u.NoKey)
	dst = appendUint(dst, 4, u.Admitted)
	dst = appendUint(dst, 5, u.Denied)
	dst = appendUint(dst, 6, u.ShadowDenied)
	dst = appendUint(dst, 7, u.AdmittedRate)
	dst = appendUint(dst, 8, u.DeniedRate)
	dst = appendUint(dst, 9, u.Fallback)
	dst = appendUint(dst, 10, u.Shed)
	return appendUint(dst, 11, u.ShadowAdmitted)
}

func (t *TrialKeys) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, t.Rule)
	return appendBytes(dst, 2, t.Registers)
}

func (d *Decision) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, d.Rule)
	dst = appendBytes(dst, 2, d.Override)
	dst = appendBytes(dst, 3, d.Key)
	dst = appendUint(dst, 4, uint64(d.Outcome))
	dst = appendUint(dst, 5, d.Remaining)
	dst = appendUint(dst, 6, d.RetryAfterMs)
	return appendUint(dst, 7, d.AgeMs)
}

// ReportResponse is a ReportResponse. Package quotav1 writes it.
type ReportResponse struct {
	Protocol uint32
	WatchMs  uint32
	Tap      *Tap // nil: there is none
}

// Tap is a Tap. Key points into the decoded input.
type Tap struct {
	Rule      string
	Key       []byte
	Outcome   Outcome
	PerSecond uint32
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
		case 3<<3 | typeBytes:
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
			if t.Outcome = Outcome(r.num); r.num > uint64(OutcomeWouldDeny) {
				t.Outcome = 0
			}
		case 4<<3 | typeVarint:
			t.PerSecond = uint32(r.num)
		}
	}
	r.leave(outer)
}
