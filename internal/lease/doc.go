// Package lease has the tree of leases, the one idea of Weir, as pure state machines.
//
// Every tier holds a limit for a key and hands out leases on it to the tier
// below. The side that spends is the holder ([Account]), the side that hands out is
// the granter ([Counter]), and a tier in the middle is both ([Relay]). One verb
// joins them: a [Want] goes up, a [Grant] comes back.
//
//	holder                               granter
//	Account.Take   → Admit | Refuse | Wait
//	Account.Ask    → Want  ────────────▶ Counter.Acquire
//	Account.Apply  ◀────────────  Grant ─┘
//
// A granted unit has already been charged to the limit above, so whatever is
// lost, late or repeated on the way can waste units, and never adds any. The
// machines rely on this:
//
//   - A holder's clock is its own and monotonic; no two clocks are compared. A
//     lease ends ttl after its ask was sent, which is before it ends at the granter.
//   - What is given back leaves the account before it travels, and travels once.
//   - The granter ignores a call that has come before ([Caller]).
//
// Nothing here reads a clock, sends a message or starts a goroutine; callers own
// the input, the output and the locks. No type is safe for concurrent use.
package lease
