package reserve

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// The world has regions with several replicas each, aggregators on one table, and a network between them that
// loses, delays, repeats and reorders. Everything that can go wrong goes wrong at random. After every admission the
// world checks that no limit was passed. It moves in steps, and is the same for the same seed.

const (
	step  = limit.Second / 20
	start = 1_000_000 * limit.Second
)

// scenario is what can go wrong in a world. Mean times are in seconds, and 0 is never.
type scenario struct {
	name     string
	seconds  int          // how long it is played; 0: 240
	least    float64      // of the limits is used at least, on average
	limits   []limit.Spec // nil: one window of 5, 10 or 30 seconds
	replicas int          // of a region; 0: 1
	aggs     int          // aggregators; 0: 1

	quiet   bool         // no link is cut, no aggregator stops deciding; else one is, or is not any more, every 15 s
	partial bool         // a link is cut for one replica, not for its region
	loss    float64      // of messages, half of the time
	delay   limit.Micros // of one message in twenty, at most; 0: like all others
	grey    float64      // how much of the time seven wants of ten are not decided in time
	idle    bool         // regions have no wants now and then
	flaps   limit.Micros // links are cut once in this time, for a quarter of it, for a half, and for three quarters

	clocks   bool         // regions' clocks are minutes off
	steps    bool         // and step
	aggClock limit.Micros // by how much the clock of the aggregators' store steps
	lag      limit.Micros // between two uses of the table, at most; 0: 250 ms
	lost     float64      // mean time until the aggregators' store loses the table
	deaf     float64      // mean time until a replica cannot use its region's record for some seconds
	next     bool         // leases of the next window are asked for
	demand   float64      // of all regions, in limits; 0: 1.5
	shares   float64      // mean time between changes of the weights

	lose    float64      // mean time until a region's store loses all, and its replicas restart
	forget  float64      // mean time until a region's store loses all
	goBack  limit.Micros // a region's record goes back by this, at most, and its links are cut
	crash   float64      // mean time until a replica restarts
	memory  float64      // mean time until a region without a store restarts, after an outage
	restart float64      // mean time until an aggregator restarts
	twin    bool         // another store speaks for the first region
}

type world struct {
	scenario
	rng     *rand.Rand
	now     limit.Micros
	events  []event // the first to happen first
	limits  []*counted
	windows []Window
	sites   []*site
	aggs    []*aggregator
	table   cell[Shares]
	ahead   limit.Micros // the clock of the aggregators' store minus the true time
	weights map[string]PerMille
	decides bool
	lossy   bool
	recall  limit.Micros // no aggregator decides on wants before
	broken  string       // what was passed
}

// cell is one stored value that is swapped by compare-and-set.
type cell[T any] struct {
	value   T
	version int
}

func (c *cell[T]) swap(version int, next T) bool {
	if c.version != version {
		return false
	}
	c.value, c.version = next, version+1
	return true
}

// put replaces what is stored, whatever it is.
func (c *cell[T]) put(next T) { c.value, c.version = next, c.version+1 }

type event struct {
	at limit.Micros
	do func()
}

// after has something happen after a time, behind what happens then already.
func (w *world) after(d limit.Micros, do func()) {
	next := event{w.now + d, do}
	later := slices.IndexFunc(w.events, func(e event) bool { return e.at > next.at })
	if later < 0 {
		later = len(w.events)
	}
	w.events = slices.Insert(w.events, later, next)
}

// play plays a scenario and returns what went wrong, and how much of its limits was used.
func play(s scenario, seed uint64) (broken string, used float64) {
	if s.seconds == 0 {
		s.seconds = 240
	}
	w := newWorld(s, seed)
	w.tickUntil(start + limit.Micros(s.seconds)*limit.Second)
	for _, c := range w.limits {
		used += c.utilisation() / float64(len(w.limits))
	}
	return w.broken, used
}

// tickUntil plays until a time, or until a limit is passed.
func (w *world) tickUntil(end limit.Micros) {
	for ; w.now < end && w.broken == ""; w.now += step {
		w.tick()
	}
}

// tick plays one step.
func (w *world) tick() {
	w.misfortune()
	for len(w.events) > 0 && w.events[0].at <= w.now {
		next := w.events[0]
		w.events = w.events[1:]
		next.do()
	}
	for _, a := range w.aggs {
		a.sync()
	}
	for _, s := range w.sites {
		s.beat()
	}
	for _, s := range w.sites {
		s.demand()
	}
}

func newWorld(s scenario, seed uint64) *world {
	w := &world{scenario: s, rng: rand.New(rand.NewPCG(seed, 1)), now: start, decides: true, weights: map[string]PerMille{}}
	specs := s.limits
	if specs == nil {
		specs = []limit.Spec{{Algorithm: limit.FixedWindow, Count: pick(w, int64(10), 60, 600), Period: pick(w, 5*limit.Second, 10*limit.Second, 30*limit.Second)}}
	}
	for _, spec := range specs {
		c := newCounted(w, spec)
		w.limits, w.windows = append(w.limits, c), append(w.windows, c.window)
	}
	names := []string{"eu", "us", "ap"}[:2+w.rng.IntN(2)]
	parts := pick(w, []PerMille{500, 500, 0}, []PerMille{400, 400, 200}, []PerMille{340, 330, 330}, []PerMille{900, 100, 0})
	for i, name := range names {
		w.weights[name] = parts[i]
		w.sites = append(w.sites, newSite(w, name))
	}
	if s.twin {
		w.sites = append(w.sites, newSite(w, "eu"))
	}
	for range max(s.aggs, 1) {
		w.aggs = append(w.aggs, &aggregator{w: w})
	}
	return w
}

// misfortune is what goes wrong in one step.
func (w *world) misfortune() {
	for i, s := range w.sites {
		s.misfortune(i)
	}
	for i := range w.aggs {
		if w.chance(w.restart) {
			w.aggs[i] = &aggregator{w: w}
		}
	}
	if w.chance(w.lost) {
		w.table.put(Shares{})
		w.recall = w.now + 2*limit.Second
		for i := range w.aggs {
			w.aggs[i] = &aggregator{w: w}
		}
	}
	if w.aggClock > 0 && w.chance(40) {
		w.ahead += pick(w, w.between(-w.aggClock, w.aggClock), w.between(-w.aggClock, w.aggClock), -w.ahead, w.between(-maxBehind, maxBehind))
	}
	if !w.quiet && w.chance(40) {
		w.decides = !w.decides || w.rng.Float64() < 0.3
	}
	if w.chance(w.shares) {
		a := PerMille(w.rng.IntN(1001))
		b := PerMille(w.rng.IntN(int(1001 - a)))
		w.weights = map[string]PerMille{"eu": a, "us": b, "ap": 1000 - a - b}
	}
	if w.chance(5) {
		w.lossy = w.rng.IntN(2) == 0
	}
}

// send delivers a message, or does not.
func (w *world) send(cut bool, arrive func()) {
	if cut || w.lossy && w.rng.Float64() < w.loss {
		return
	}
	copies := 1
	if w.loss > 0 && w.rng.IntN(20) == 0 {
		copies = 2
	}
	for range copies {
		late := 400 * limit.Millisecond
		if w.rng.IntN(20) == 0 {
			late = max(late, w.delay)
		}
		w.after(w.between(20*limit.Millisecond, late), arrive)
	}
}

// chance is true once in so many seconds, on average.
func (w *world) chance(mean float64) bool {
	return mean > 0 && w.rng.Float64() < float64(step)/float64(limit.Second)/mean
}

func (w *world) between(a, b limit.Micros) limit.Micros {
	return a + limit.Micros(w.rng.Int64N(int64(b-a)+1))
}

func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// fail notes the first thing that went wrong.
func (w *world) fail(format string, a ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf("%.2f s: ", float64(w.now-start)/1e6) + fmt.Sprintf(format, a...)
	}
}
