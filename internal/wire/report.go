package wire

// ReportRequest is a ReportRequest. Holder and all keys point into the decoded input.
type ReportRequest struct {
	Protocol    uint32
	ProtocolMax uint32
	Holder      []byte
	Worker      uint64
	Pop         string
	Region      string
	IntervalMs  uint32
	Members     []Member
	Keys        []KeyRate
	Denied      []KeyRate
	Rules       []RuleUse
	Decisions   []Decision
}

// MemberKind is a MemberKind. The zero value is not legal.
type MemberKind uint8

// The kinds of members.
const (
	MemberPop MemberKind = 1 + iota
	MemberRegion
	MemberAggregator
)

// Member is a Member.
type Member struct {
	Kind            MemberKind
	Region          string
	Name            string
	Holder          []byte
	Worker          uint64
	Version         string
	RulesVersion    string
	RulesRevision   uint64
	RulesAgeMs      uint64
	AgeMs           uint64
	DegradedMs      uint64
	Keys            uint64
	Places          uint64
	Error           string
	Redis           string
	ErrorAgeMs      uint64
	ReservePerMille uint32
	SilentMs        uint64
	Workers         uint32
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

// Append appends the encoded message to dst and returns the longer slice.
func (m *ReportRequest) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendUint(dst, 2, uint64(m.ProtocolMax))
	dst = appendBytes(dst, 3, m.Holder)
	dst = appendUint(dst, 4, m.Worker)
	dst = appendBytes(dst, 5, m.Pop)
	dst = appendBytes(dst, 6, m.Region)
	dst = appendUint(dst, 7, uint64(m.IntervalMs))
	dst = appendList(dst, 8, m.Members, (*Member).append)
	dst = appendList(dst, 9, m.Keys, (*KeyRate).append)
	dst = appendList(dst, 10, m.Denied, (*KeyRate).append)
	dst = appendList(dst, 11, m.Rules, (*RuleUse).append)
	return appendList(dst, 12, m.Decisions, (*Decision).append)
}

// appendList appends a field of nested messages.
func appendList[T any](dst []byte, number byte, list []T, one func(*T, []byte) []byte) []byte {
	for i := range list {
		dst = append(dst, number<<3|typeBytes, 0)
		start := len(dst)
		dst = closeNested(one(&list[i], dst), start)
	}
	return dst
}

func (m *Member) append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Kind))
	dst = appendBytes(dst, 2, m.Region)
	dst = appendBytes(dst, 3, m.Name)
	dst = appendBytes(dst, 4, m.Holder)
	dst = appendUint(dst, 5, m.Worker)
	dst = appendBytes(dst, 6, m.Version)
	dst = appendBytes(dst, 7, m.RulesVersion)
	dst = appendUint(dst, 8, m.RulesRevision)
	dst = appendUint(dst, 9, m.RulesAgeMs)
	dst = appendUint(dst, 10, m.AgeMs)
	dst = appendUint(dst, 11, m.DegradedMs)
	dst = appendUint(dst, 12, m.Keys)
	dst = appendUint(dst, 13, m.Places)
	dst = appendBytes(dst, 14, m.Error)
	dst = appendBytes(dst, 15, m.Redis)
	dst = appendUint(dst, 16, m.ErrorAgeMs)
	dst = appendUint(dst, 17, uint64(m.ReservePerMille))
	dst = appendUint(dst, 18, m.SilentMs)
	return appendUint(dst, 19, uint64(m.Workers))
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
	return appendUint(dst, 6, u.ShadowDenied)
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

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *ReportRequest) Decode(b []byte) error {
	old := *m
	*m = ReportRequest{
		Members: old.Members[:0], Keys: old.Keys[:0], Denied: old.Denied[:0], Rules: old.Rules[:0], Decisions: old.Decisions[:0],
	}
	r := newReader(b, MaxReport)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeVarint:
			m.ProtocolMax = uint32(r.num)
		case 3<<3 | typeBytes:
			m.Holder = r.bytes()
		case 4<<3 | typeVarint:
			m.Worker = r.num
		case 5<<3 | typeBytes:
			m.Pop = r.text(old.Pop)
		case 6<<3 | typeBytes:
			m.Region = r.text(old.Region)
		case 7<<3 | typeVarint:
			m.IntervalMs = uint32(r.num)
		case 8<<3 | typeBytes:
			decodeOne(&r, &m.Members, MaxMembers, (*Member).decode)
		case 9<<3 | typeBytes:
			decodeOne(&r, &m.Keys, MaxKeyRates, (*KeyRate).decode)
		case 10<<3 | typeBytes:
			decodeOne(&r, &m.Denied, MaxKeyRates, (*KeyRate).decode)
		case 11<<3 | typeBytes:
			decodeOne(&r, &m.Rules, MaxRuleUses, (*RuleUse).decode)
		case 12<<3 | typeBytes:
			decodeOne(&r, &m.Decisions, MaxDecisions, (*Decision).decode)
		}
	}
	return r.failure("ReportRequest")
}

// decodeOne reads one more element of a list.
func decodeOne[T any](r *reader, list *[]T, most int, decode func(*T, *reader)) {
	if one := extend(r, list, most); one != nil {
		outer := r.enter()
		decode(one, r)
		r.leave(outer)
	}
}

func (m *Member) decode(r *reader) {
	old := *m
	*m = Member{}
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Kind = MemberKind(known(r.num, uint64(MemberAggregator)))
		case 2<<3 | typeBytes:
			m.Region = r.text(old.Region)
		case 3<<3 | typeBytes:
			m.Name = r.text(old.Name)
		case 4<<3 | typeBytes:
			m.Holder = r.bytes()
		case 5<<3 | typeVarint:
			m.Worker = r.num
		case 6<<3 | typeBytes:
			m.Version = r.text(old.Version)
		case 7<<3 | typeBytes:
			m.RulesVersion = r.text(old.RulesVersion)
		case 8<<3 | typeVarint:
			m.RulesRevision = r.num
		case 9<<3 | typeVarint:
			m.RulesAgeMs = r.num
		case 10<<3 | typeVarint:
			m.AgeMs = r.num
		case 11<<3 | typeVarint:
			m.DegradedMs = r.num
		case 12<<3 | typeVarint:
			m.Keys = r.num
		case 13<<3 | typeVarint:
			m.Places = r.num
		case 14<<3 | typeBytes:
			m.Error = r.text(old.Error)
		case 15<<3 | typeBytes:
			m.Redis = r.text(old.Redis)
		case 16<<3 | typeVarint:
			m.ErrorAgeMs = r.num
		case 17<<3 | typeVarint:
			m.ReservePerMille = uint32(r.num)
		case 18<<3 | typeVarint:
			m.SilentMs = r.num
		case 19<<3 | typeVarint:
			m.Workers = uint32(r.num)
		}
	}
}

func (k *KeyRate) decode(r *reader) {
	old := *k
	*k = KeyRate{}
	for r.next() {
		switch r.tag {
		case 1<<3 | typeBytes:
			k.Rule = r.text(old.Rule)
		case 2<<3 | typeBytes:
			k.Override = r.text(old.Override)
		case 3<<3 | typeBytes:
			k.Key = r.bytes()
		case 4<<3 | typeVarint:
			k.Count = r.num
		case 5<<3 | typeVarint:
			k.Over = r.num
		}
	}
}

func (u *RuleUse) decode(r *reader) {
	old := *u
	*u = RuleUse{}
	for r.next() {
		switch r.tag {
		case 1<<3 | typeBytes:
			u.Rule = r.text(old.Rule)
		case 2<<3 | typeVarint:
			u.Matched = r.num
		case 3<<3 | typeVarint:
			u.NoKey = r.num
		case 4<<3 | typeVarint:
			u.Admitted = r.num
		case 5<<3 | typeVarint:
			u.Denied = r.num
		case 6<<3 | typeVarint:
			u.ShadowDenied = r.num
		}
	}
}

func (d *Decision) decode(r *reader) {
	old := *d
	*d = Decision{}
	for r.next() {
		switch r.tag {
		case 1<<3 | typeBytes:
			d.Rule = r.text(old.Rule)
		case 2<<3 | typeBytes:
			d.Override = r.text(old.Override)
		case 3<<3 | typeBytes:
			d.Key = r.bytes()
		case 4<<3 | typeVarint:
			d.Outcome = Outcome(known(r.num, uint64(OutcomeWouldDeny)))
		case 5<<3 | typeVarint:
			d.Remaining = r.num
		case 6<<3 | typeVarint:
			d.RetryAfterMs = r.num
		case 7<<3 | typeVarint:
			d.AgeMs = r.num
		}
	}
}

// known is a value of an enum, 0 if it is beyond the last one.
func known(n, last uint64) uint64 {
	if n > last {
		return 0
	}
	return n
}
