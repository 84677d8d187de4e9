// Package holder is the side of a lease that spends: what a holder keeps of one key ([State]), or of the slots of one
// ([Holding]), and what it decides by that.
//
// A holder of a key is in one of five phases, and [next] says how it moves: a line for each event, a column
// for each phase before it.
//
//	           fresh    leased   partial  denied   failing
//	nothing    fresh    leased   partial  denied   fresh
//	covered    leased   leased   leased   leased   leased
//	partly     partial  partial  partial  partial  partial
//	denial     denied   denied   denied   denied   denied
//	cheaper    leased   leased   leased   denied   leased
//	ahead      leased   leased   partial  denied   leased
//	undecided  failing  failing  failing  failing  failing
//	forgotten  fresh    fresh    fresh    fresh    fresh
//
// Partial and Denied end by time, see [State.Refuses]; Failing ends with the next reply that decides.
// Only a reply for what was asked moves a holder, see [State.eventOf].
// What a relay far from its granter needs beside this is its own policy, in package relay.
package holder
