package sim

// Fault is one thing broken on purpose, in the simulator and not in the product,
// to prove that the checks see it.
type Fault uint8

// The faults.
const (
	None             Fault = iota
	GrantsTwice            // a grant is not charged now and then: the next hands the same units out again
	AppliesTwice           // calls are not told apart by seq
	MergesLots             // a top-up is added to the older lot and prolongs it
	ParksTakes             // a take is committed a little after it was acted upon
	OutlivesParent         // a tier in the middle grants for longer than it holds
	GivesBackTwice         // what is given back is sent again in a call of its own
	SpendsEarly            // units of the next window are spent at once
	ForgetsDenials         // a full table evicts slots that are not idle
	ForgetsSpentKeys       // a full table evicts counters that are not fresh
	ChargesTwice           // a debt is charged as often as it is told
	ForgetsDebts           // a debt is taken for acknowledged when it is told
	TakesBackTwice         // what copies of a call give back is taken back again
	MixesWorkers           // the calls of all workers of a holder are taken for one sequence
	KeepsItsLots           // a holder that asks for who waits does not offer what it has
	DeniesItsOwn           // a denial is taken for one of all that costs as much, whatever the holder has itself
)

func (f Fault) String() string {
	return [...]string{"none", "grants twice", "applies twice", "merges lots", "parks takes", "outlives parent",
		"gives back twice", "spends early", "forgets denials", "forgets spent keys", "charges twice", "forgets debts", "takes back twice", "mixes workers",
		"keeps its lots", "denies its own"}[f]
}
