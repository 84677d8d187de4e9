// Package wire reads and writes the messages of quota.proto for programs that cannot afford the protobuf runtime: the
// filter, whose size is its start-up time.
//
// The structs mirror the generated ones field by field; quota.proto states the meaning of each field. Asks and answers are
// encoded from, and decoded into, [lease.Want] and [lease.Grant]. Both sides may use either codec. As protobuf requires, the
// last one of several values of a field wins, unknown fields are skipped, a field of the wrong wire type counts as unknown,
// and a string must be UTF-8.
//
// The package does not check a peer's values: numbers of units above 2^63 become negative. [Want.Check] and [Grant.Bounded]
// check them.
//
// PoPs only write the request of a report and read its answer; regions and aggregators use the generated code.
//
// Three things are stricter than protobuf: a message longer than its maximum, a list longer than its maximum, and a group
// (an encoding that proto3 cannot express) are errors. An unknown status or outcome counts as none, and a time of more than
// [lease.Never] as [lease.Never], where that has a meaning. One thing is laxer: in a Request, pop and trace_parent decide
// nothing, and trace_parent comes from clients. So if one is not UTF-8, or there is a trace parent too many, it is left out,
// and the wants are answered. Nothing panics on any input.
//
// Memory. Append allocates only to grow dst. Decode reuses the lists of the message it decodes into, and the strings that
// have not changed, so repeated decoding into one struct allocates nothing. Only the statement of a reserve, and a tap, are
// made anew each time, because their readers may keep them. Strings are copies. Byte slices point into the input: they are
// valid as long as the input is not written to.
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
	maxRules        = 4 << 20         // bytes of a RulesResponse
	MaxCompiled     = maxRules - 1024 // bytes of the rules in it, in compiled form
	MaxWants        = 1024            // wants of a Request, grants of a Response
	MaxTraceParents = 64              // trace parents of a Request; more are left out
	maxSpans        = 64              // spans of used windows; [reserve.Statement.Check] allows fewer
)
