// Package lease has the words of the tree of leases, the one idea of Weir: what a holder asks ([Want]), what it is
// answered ([Grant]), and what both sides need to know of a limit ([Terms]).
//
// Every tier holds a limit for a key and hands out leases on it to the tier
// below. The side that spends is a holder, the side that hands out is a granter, and a tier in the middle
// is both. Each of them is a pure state machine in a package below this one:
//
//	holder                               granter
//	State.Take   → Admit | Refuse | Wait
//	State.Ask    → Want  ──────────────▶ Counter.Acquire, Slots.Acquire
//	State.Apply  ◀────────────── Grant ─┘
//
//	relay    a holder and a granter; the only one that knows distance
//	rounds   all or nothing over several granters
//
// A granted unit has already been charged to the limit above, so whatever is
// lost, late or repeated on the way can waste units, and never adds any. The
// machines rely on this:
//
//   - A holder's clock is its own and monotonic; no two clocks are compared. A
//     lease ends ttl after its ask was sent, which is before it ends at the granter.
//   - What is given back leaves the holder before it travels, and travels once.
//   - The granter ignores a call that has come before ([Caller]).
//
// Nothing here reads a clock, sends a message or starts a goroutine; callers own
// the input, the output and the locks. No type is safe for concurrent use.
package lease
