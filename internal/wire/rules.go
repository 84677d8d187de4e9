package wire

// RulesRequest is a RulesRequest.
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

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *RulesRequest) Decode(b []byte) error {
	old := *m
	*m = RulesRequest{}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeBytes:
			m.HaveVersion = r.text(old.HaveVersion)
		case 3<<3 | typeBytes:
			m.Pop = r.text(old.Pop)
		case 4<<3 | typeVarint:
			m.ProtocolMax = uint32(r.num)
		case 5<<3 | typeVarint:
			m.HaveSecret = r.num
		}
	}
	return r.failure("RulesRequest")
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

// Append appends the encoded message to dst and returns the longer slice.
func (m *RulesResponse) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.RulesVersion)
	dst = appendBytes(dst, 3, m.Rules)
	dst = appendUint(dst, 4, m.RulesRevision)
	dst = appendBytes(dst, 5, m.Secret)
	return appendUint(dst, 6, uint64(m.WatchMs))
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
