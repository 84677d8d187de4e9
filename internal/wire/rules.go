package wire

// RulesRequest is a RulesRequest. Regions read it with the generated code, and write the answer.
type RulesRequest struct {
	Protocol    uint32
	HaveVersion string
	Pop         string
	ProtocolMax uint32
	HaveSecret  uint64
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *RulesRequest) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.HaveVersion)
	dst = appendBytes(dst, 3, m.Pop)
	dst = appendUint(dst, 4, uint64(m.ProtocolMax))
	return appendUint(dst, 5, m.HaveSecret)
}

// RulesResponse is a RulesResponse. Rules and Secret point into the decoded input.
type RulesResponse struct {
	Protocol      uint32
	RulesVersion  string
	Rules         []byte
	RulesRevision uint64
	Secret        []byte
	WatchMs       uint32
}

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *RulesResponse) Decode(b []byte) error {
	old := *m
	*m = RulesResponse{}
	r := newReader(b, maxRules)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeBytes:
			m.RulesVersion = r.text(old.RulesVersion)
		case 3<<3 | typeBytes:
			m.Rules = r.bytes()
		case 4<<3 | typeVarint:
			m.RulesRevision = r.num
		case 5<<3 | typeBytes:
			m.Secret = r.bytes()
		case 6<<3 | typeVarint:
			m.WatchMs = uint32(r.num)
		}
	}
	return r.failure("RulesResponse")
}
