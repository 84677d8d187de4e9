// Package holder is the side of a lease that spends: what a holder keeps of one key ([State]), or of the slots of one
// ([Holding]), and what it decides by that.
//
// A holder of a key is in one of five phases. The table of [next], in phase.go, says how it moves.
// Partial and Denied end by time, see [State.Refuses]; Failing ends with the next reply that decides.
// Only a reply for what was asked moves a holder, see [State.eventOf].
// What a relay far from its granter needs beside this is its own policy, in package relay.
package holder
