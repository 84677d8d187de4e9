package table

// Store is the memory that the workers of an Envoy share: Proxy-Wasm shared data.
type Store interface {
	// Get returns a value and the number of its version, which changes with every
	// Set. The value is valid until the next call. ok is false if there is none.
	Get(key []byte) (value []byte, version uint32, ok bool)
	// Set stores a copy of value if the version is still this one. For a key that
	// does not exist the version is [Absent]; 0 stores whatever is there.
	Set(key, value []byte, version uint32) Outcome
}

// Absent is the version that creates a key: the host lets any version create a
// missing one, and this one, which no key has, fails if another worker was first.
const Absent uint32 = 0xffffffff

// Outcome is what became of a change.
type Outcome uint8

// The outcomes.
const (
	Stored Outcome = iota
	Raced          // another worker changed it meanwhile: read again
	Full           // the page has no room and nothing that could be forgotten
	Failed         // the host rejected
)

// Tries is how often a change is tried after races: as good as without end, because a change
// that is given up strands units until their lease ends. Measured: of 100,000 changes by two
// workers that hammer one page, at most 32 need more than 20.
const Tries = 1000
