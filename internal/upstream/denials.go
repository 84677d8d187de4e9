package upstream

import (
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// maxDenials is how many denials are remembered.
	maxDenials = 4096
	// denialFor is for how long: a flood on a key asks the region's store ten times a second.
	denialFor = 100 * limit.Millisecond
)

// denials remembers of which keys the trickle was used up a moment ago. Each has one place, which another one may take.
// The zero value remembers nothing. It is safe for concurrent use.
type denials struct {
	mu     sync.Mutex
	places [maxDenials]denial
}

type denial struct {
	key   uint64
	until limit.Micros
}

// note remembers a denial until a time of the region's store.
func (d *denials) note(a *engine.Ask, until limit.Micros) {
	key := keyOf(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := &d.places[key%maxDenials]; at.key != key || at.until <= until-denialFor {
		*at = denial{key, until}
	}
}

// has reports whether an ask was denied a moment ago.
func (d *denials) has(a *engine.Ask, now limit.Micros) bool {
	key := keyOf(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.places[key%maxDenials]
	return at.key == key && now < at.until && now >= at.until-denialFor
}

func keyOf(a *engine.Ask) uint64 { return engine.Hash(a.Key, a.Policy.Salt()) }
