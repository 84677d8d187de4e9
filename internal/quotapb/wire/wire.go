// Package wire reads and writes the messages of quota.proto for programs that
// cannot afford the protobuf runtime: the filter, whose size is its start-up time.
//
// The structs mirror the generated ones field by field; what a field means is
// stated in quota.proto. Both sides may use either codec: what one writes the other
// reads. As protobuf requires, the last one of several values of a field wins,
// unknown fields are skipped, a field of the wrong wire type counts as unknown,
// and a string must be UTF-8.
//
// Three things are stricter than protobuf: a message longer than its maximum, a
// list longer than its maximum, and a group (an encoding that proto3 cannot
// express) are errors. One is laxer: of a Request, pop and trace_parent decide
// nothing, and trace_parent comes from clients; so one that is not UTF-8, or a trace
// parent too many, is left out, and the wants are answered. Nothing panics on any
// input.
//
// Memory. Append allocates only to grow dst. Decode reuses the lists of the
// message it decodes into, and the strings where they have not changed; so
// decoding into the same struct again and again settles at no allocation.
// Strings are copies. Byte slices point into the input: they are valid as long as
// the input is not written to.
//
// A message may be read by several goroutines at once, but not during Decode.
package wire

import "strconv"

// The versions of the protocol that this package supports, from the oldest to the newest.
// A release that brings a new one supports the one before, too, so that a fleet can be
// rolled in either order. Every call states its caller's range, see [Common].
const (
	ProtocolMin = 1
	ProtocolMax = 1
	// Protocol is the newest.
	Protocol = ProtocolMax
)

// Common is the version in which a call is answered whose caller supports oldest to
// newest: the newest that both sides support; ok is false if there is none. newest is 0
// for a caller that supports one version.
func Common(oldest, newest uint32) (version uint32, ok bool) {
	return common(oldest, newest, ProtocolMin, ProtocolMax)
}

func common(oldest, newest, ownOldest, ownNewest uint32) (version uint32, ok bool) {
	newest = max(oldest, newest)
	version = min(newest, ownNewest)
	return version, oldest > 0 && version >= oldest && version >= ownOldest
}

// Supported reports whether this package supports a version.
func Supported(version uint32) bool { return ProtocolMin <= version && version <= ProtocolMax }

// OtherVersion is the version of a message that this package does not support.
type OtherVersion uint32

func (v OtherVersion) Error() string {
	return "it is in version " + strconv.FormatUint(uint64(v), 10) + " of the quota protocol, supported is " + Versions(ProtocolMin, ProtocolMax)
}

// Versions words a range: "1", or "1 to 2".
func Versions(oldest, newest uint32) string {
	text := strconv.FormatUint(uint64(oldest), 10)
	if newest > oldest {
		text += " to " + strconv.FormatUint(uint64(newest), 10)
	}
	return text
}

// Bounds on what Decode accepts. A sender keeps within them; Append does not check.
const (
	MaxMessage      = 1 << 20         // bytes of any message but RulesResponse
	MaxRules        = 4 << 20         // bytes of a RulesResponse
	MaxCompiled     = MaxRules - 1024 // bytes of the rules in it, in compiled form
	MaxWants        = 1024            // wants of a Request, grants of a Response
	MaxTraceParents = 64              // trace parents of a Request; more are left out
	MaxReturned     = 32              // returns in a Want
)

// Bounds on what a granter takes. A sender keeps within them: a want beyond them is
// answered as unavailable, alone or with its group.
const (
	MaxRuleName = 64        // bytes
	MaxKey      = 8192      // bytes: sixteen parts of the longest kind
	MaxPop      = 128       // bytes; more are not used
	MaxGroup    = 64        // wants of one group
	MaxUnits    = 1<<32 - 1 // of any number of units
)

// NeverMs in a field of milliseconds means that the time never comes.
const NeverMs = 1<<53 - 1

// Status is what became of a want. Decode keeps unknown values;
// treat them as StatusUnavailable.
type Status int32

// The statuses.
const (
	StatusUnspecified Status = iota // not a legal answer
	StatusOK                        // need was granted, or nobody waited
	StatusDenied                    // there is less than need left
	StatusUnavailable               // not decided in time
	StatusUnknownRule               // the granter's rules are others
)

// Request is an AcquireRequest.
type Request struct {
	Protocol      uint32
	Holder        []byte // 16 bytes
	Epoch         uint64
	Seq           uint64
	Ack           uint64
	RulesVersion  string
	Wants         []Want
	Pop           string
	TraceParent   []string
	Worker        uint64
	ProtocolMax   uint32
	RulesRevision uint64
	Region        string
	RegionStore   uint64
}

// Want is a Want: 0 <= Need <= Waiting <= Waiting + Soon <= Want.
type Want struct {
	Rule      string
	Variant   uint32
	Key       []byte
	Group     uint32
	Need      uint64
	Waiting   uint64
	Want      uint64
	Unused    uint64
	Lease     uint64
	Overdrawn uint64
	Denied    uint64
	Fresh     bool
	Next      bool
	Holding   uint64
	Debt      uint64
	Left      uint64
	ResetMs   uint64
	Override  uint64
	Returned  []Returned
	Soon      uint64
}

// Returned is a Returned.
type Returned struct {
	Name  uint64
	Units uint64
}

// Response is an AcquireResponse. Whoever asked checks that it has as many grants
// as the request had wants.
type Response struct {
	Protocol      uint32
	Epoch         uint64
	RulesVersion  string
	Grants        []Grant
	Holders       uint32
	Seq           uint64
	RulesRevision uint64
	RegionDoubled bool
	Dropped       bool
}

// Grant is a Grant. Durations are in milliseconds.
type Grant struct {
	Status       Status
	Granted      uint64
	Lease        uint64
	StartsInMs   uint64
	TTLMs        uint64
	RetryAfterMs uint64
	AskAfterMs   uint64
	Limit        uint64
	Remaining    uint64
	ResetMs      uint64
	StillOwed    bool
}

// RulesRequest is a RulesRequest.
type RulesRequest struct {
	Protocol    uint32
	HaveVersion string
	Pop         string
	ProtocolMax uint32
}

// RulesResponse is a RulesResponse. Rules points into the decoded input.
type RulesResponse struct {
	Protocol      uint32
	RulesVersion  string
	Rules         []byte
	RulesRevision uint64
}
