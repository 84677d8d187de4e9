// Package edge is a point of presence (PoP) as a state machine: requests, ticks and
// replies of the region go in; verdicts and calls to be made come out. It uses no
// Envoy, no clock and no network; package filter connects it to them.
//
// A [Worker] is one worker thread's part of the PoP. What the workers of an Envoy
// share lies in a [table.Store]: the keys' leases, the process' identity, the
// rules, and which worker does the background work. A worker keeps to itself what
// belongs to its own streams: requests that wait, calls in flight, slots in use, and a
// cache of denials.
//
//	w.Decide(now, request) ─▶ Admit | Deny | Wait
//	w.Reply(now, call, body), w.Failed(now, call), w.Tick(now), w.End(now, request)
//	w.Calls, w.Decided      ─▶ what to send, and which waiting requests to resume
//
// All rules that match a request apply, and all or none of them are charged: when one rule
// refuses, what was taken for the others is put back. A request whose keys have
// units on lease is decided by one compare-and-set per rule. One that finds no
// units waits: its want joins those of other requests, travels with the next call,
// and the reply decides it. Shadow rules use a table, calls and a breaker of their
// own, and nothing waits for them.
//
// Nothing here is safe for concurrent use; each worker is one thread.
package edge
