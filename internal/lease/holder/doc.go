// Package holder is the side of a lease that spends: the state that a holder keeps of one key ([State]), or of the slots
// of one ([Holding]), and its decisions.
//
// A key is denied until a time, or partial until a time, or neither ([Phase]). Only a reply to an ask moves it, see
// [State.follow].
// The policy of a relay that is far from its granter is in package relay.
package holder
