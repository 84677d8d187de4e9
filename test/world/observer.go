package world

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
)

// Observer sees what crosses the borders of a world, and may change it: to check what has to hold, and to break
// something on purpose. Its methods are called by the run's own goroutine, but for those of the stores and cells
// that it makes, which the goroutines of the product call, too.
type Observer interface {
	// Begins is called first of all, with the world that is being made.
	Begins(w *World)
	// Passes is called where a call is on its way.
	Passes(c *Call, at Stage)
	// Happened is called when a PoP has taken an event: what it decided and what it wants sent is known, and nothing has
	// ended or left.
	Happened(p *PoP)
	// Wraps puts something round a store; l is whose it is, nil for the counters.
	Wraps(s engine.Store, at Border, l *Life) engine.Store
	// Cell puts something round the cell that has the record of a region's reserve.
	Cell(r *Region, c engine.Cell) engine.Cell
}

// Stage is where a call is on its way.
type Stage uint8

// The stages, in their order.
const (
	Made      Stage = iota // a worker wants it sent
	Leaves                 // it leaves its holder
	CutOff                 // its link is cut: nobody gets it
	Lost                   // nobody gets it
	Carried                // it is on its way up
	Repeated               // and once more
	Copied                 // this is another copy, which arrives
	Comes                  // it has come to a tier
	Answered               // the tier sends an answer
	ReplyLost              // nobody gets it
	Replied                // it has come down
	Arrives                // the PoP takes it for that of c.Flight
	Missed                 // nobody waits for it any more
	Received               // the holder that waits for it gets it
)

// Border is where a store is.
type Border uint8

// The borders.
const (
	Counters Border = iota // the counters of the topmost tier, or the aggregator over them
	Cached                 // a lease cache
	Own                    // what a region counts itself, as one of its replicas calls it
	Served                 // what a service asks
)

// passes tells the observer.
func (w *World) passes(c *Call, at Stage) { w.config.Observer.Passes(c, at) }

// wraps has the observer put something round a store.
func (w *World) wraps(s engine.Store, at Border, l *Life) engine.Store {
	return w.config.Observer.Wraps(s, at, l)
}

type answering struct{}

// CallOf is the call that a service answers when it asks its store with this context.
func CallOf(ctx context.Context) *Call { return ctx.Value(answering{}).(*Call) }
