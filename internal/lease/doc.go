// Package lease has the messages of the tree of leases: an ask of a holder ([Want]), its answer ([Grant]), and the
// properties of a limit that both sides need ([Terms]).
//
// PoPs hold leases of a region, and regions hold leases of the aggregator. A holder spends units, a granter lends them,
// and a region in the middle is both. Each of them is a pure state machine in a package below this one:
//
//	holder                               granter
//	State.Take   → Admit | Reject | Wait
//	State.Ask    → Want  ──────────────▶ Counter.Acquire, Slots.Acquire
//	State.Apply  ◀────────────── Grant ─┘
//
//	relay    a holder and a granter; the only one that knows distance
//	rounds   all or nothing over several granters
//
// A granted unit has already been charged to the granter's limit, so lost, late or repeated messages can waste units, and
// never add any. The machines rely on this:
//
//   - A holder's clock is its own and monotonic; no two clocks are compared. A
//     lease ends ttl after its ask was sent, which is before it ends at the granter.
//   - A unit that is given back leaves the holder before it travels, and travels once.
//   - The granter ignores a call that has come before ([Caller]).
//
// Nothing here reads a clock, sends a message or starts a goroutine; callers own
// the input, the output and the locks. No type is safe for concurrent use.
package lease
