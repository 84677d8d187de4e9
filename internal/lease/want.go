package lease

import "github.com/weirlimit/weir/internal/limit"

// Want is what a holder asks and reports of one counter. The zero value asks for nothing,
// reports nothing, and is answered with what is left.
type Want struct {
	Need    int64 // units of the first request that waits; 0: nobody waits
	Waiting int64 // units of all requests that wait for this key
	Want    int64 // units the holder would like; Want >= Waiting >= Need
	// Soon is units that the holder expects to need while the ask and its answer are on their
	// way, beside Waiting: those requests would have to wait. Waiting + Soon <= Want.
	Soon int64

	Unused    int64  // units given back; they left the holder before this was sent
	Settled   int64  // units that were reserved until a response came, and count; they are not Unused
	Lease     uint32 // the lease that Unused and Settled belong to
	Fresh     bool   // the first ask for this key within a lease interval
	Next      bool   // what is asked ahead is meant for the next window
	Overdrawn int64  // units admitted without a lease, repeated until acknowledged
	Debt      uint64 // names these units, the same in every repetition; 0: they have no name
	Denied    int64  // units rejected from memory since the last ask
	Withheld  int64  // units that the granter keeps for others: see package fair. It is not part of the message

	// Holding is for a concurrency limit only: slots in use, or kept in reserve; no more than
	// these are used until the reply. Need and Waiting are then slots beyond these, Want is
	// slots in all, at least Holding, and the rest is without meaning.
	Holding int64
}

// Asks is the part of a want that asks for something.
func (w *Want) Asks() Want {
	return Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Soon: w.Soon, Withheld: w.Withheld, Next: w.Next, Holding: w.Holding}
}

// Status is the outcome of a want. The zero value is not legal on the wire.
type Status uint8

// The statuses.
const (
	OK Status = 1 + iota
	Denied
	Unavailable // could not be decided in time; other wants of the call could
	UnknownRule
)

// Grant answers a Want. Durations are relative: StartsIn and the others count
// from the arrival of the reply, TTL from when the want was sent.
type Grant struct {
	Status  Status
	Granted int64  // 0, or at least Need
	Lease   uint32 // the period it was charged to, see limit.PeriodID

	StartsIn   Millis // the units may be spent from then on; 0: at once
	TTL        Millis // and until then
	RetryAfter Millis // with a denial, or a grant that leaves nothing: when there is more, for clients
	AskAfter   Millis // with a denial: when the holder may ask again

	Limit     int64 // the limit's capacity, for response headers
	Remaining int64 // what was left at the granter
	Reset     Millis

	// StillOwed is true if Overdrawn of the want was not applied, though the rest was.
	StillOwed bool
	// Block is whether the key is blocked, and until then RetryAfter is.
	Block limit.Block
	// Override is the number that the holder has given to the name of the override by key with this Limit, 1 to
	// MaxOverrides; 0: there is none, or it has no name. It is not part of the message.
	Override uint16
}

// Keep is a grant of which so many units are kept while the others go back.
func (g Grant) Keep(units int64) Grant {
	return Grant{Status: OK, Granted: units, Limit: g.Limit, Remaining: g.Remaining + g.Granted - units, Reset: g.Reset}
}
