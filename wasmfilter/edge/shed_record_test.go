package edge

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// A worker that starves, as its thread is busy, keeps what it has in flight for 10 s; then the others have its room. When it
// comes back it counts again.
func TestStarvedWorker(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(10, "", ""))}
	for range 6 {
		c.come(1, shed.Critical, "ann")
	}
	starve := func(ticks, requests int) int {
		for i := range ticks {
			if i >= ticks-requests {
				c.come(0, shed.Critical, "bob")
			}
			c.now += 100
			c.tick(0)
		}
		return len(c.open)
	}
	if n := starve(100, 10); n != 10 {
		t.Errorf("%d in flight while a worker starves, want 10", n)
	}
	if n := starve(30, 10); n != 16 {
		t.Errorf("%d in flight after 10 s, want 10 of the worker that is left beside 6", n)
	}
	if c.come(1, shed.Critical, "ann") {
		t.Error("the worker that is back admits more")
	}
	c.pass(200)
	if c.leave(15); c.come(0, shed.Critical, "bob") {
		t.Error("what the worker has that is back does not count")
	}
}

// What a worker claimed and does not use is there for others once it has ticked.
func TestClaimIsGivenUp(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(100, "", ""))}
	for range 80 {
		c.come(0, shed.Normal, "ann")
	}
	for len(c.open) > 0 {
		c.leave(0)
	}
	c.tick(0)
	for range 70 {
		c.come(1, shed.Critical, "bob")
	}
	if n := len(c.open); n != 70 {
		t.Errorf("%d of 70 critical requests are admitted, with nothing else in flight", n)
	}
}

// What a VM had in flight that was thrown away counts for 10 s.
func TestWorkerStartsAnew(t *testing.T) {
	c := crowd{world: newWorld(t, 1, shedRules(4, "", ""))}
	c.comes(4, shed.Critical)
	c.workers = nil
	c.start()
	for _, admitted := range []bool{false, true} {
		if c.pass(5000); c.come(0, shed.Critical, "ann") != admitted {
			t.Errorf("5 s later: admitted %v", !admitted)
		}
	}
}

// What is in flight belongs to the rule by its name, whatever becomes of the rules.
func TestShedRulesChange(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(10, "", ""))}
	use := func(rules string) {
		c.region.set = mustRules(t, rules)
		c.region.revision++
		c.passes(6000)
		for i, x := range c.workers {
			if x.RulesVersion() != c.region.set.Version {
				t.Fatalf("worker %d has other rules", i)
			}
		}
	}
	c.comes(8, shed.Critical)
	use(shedRules(9, "", ""))
	if n := c.comes(4, shed.Critical); n != 9 {
		t.Errorf("%d in flight after the capacity has become 9", n)
	}
	use(shedRules(9, `"mode":"off",`, ""))
	c.leave(0)
	if n := c.comes(1, shed.Critical); n != 9 || c.open[8].request.Holds() {
		t.Error("a rule that is off decides")
	}
	use(`{"rules":[]}`)
	c.leave(8)
	use(shedRules(9, "", ""))
	if n := c.comes(4, shed.Critical); n != 9 {
		t.Errorf("%d in flight after the rule has come back", n)
	}
	use(`{"rules":[]}`)
	for len(c.open) > 0 {
		c.leave(0)
	}
	if c.pass(300); c.rule(0) != nil {
		t.Errorf("a rule that is gone is kept: %+v", c.rule(0))
	}
}

// What is in the store cannot break a worker.
func TestShedRecordIsSpoilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crowd{world: newWorld(t, 2, shedRules(10, "", ""))}
		c.comes(1, shed.Critical)
		spoilt := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Custom(func(t *rapid.T) []byte {
				words := rapid.IntRange(0, 40).Draw(t, "words")
				return rapid.SliceOfN(rapid.Byte(), 8*words, 8*words).Draw(t, "bytes")
			}),
			rapid.Just(make([]byte, 8*(3+9*65)))).Draw(t, "record")
		c.store.Set([]byte("shed1:overload"), spoilt, 0)
		if n := c.comes(30, shed.Critical); n < 10 || n > 11 {
			t.Errorf("%d in flight", n)
		}
	})
}

// nowhere is a store that keeps nothing.
type nowhere struct{}

func (nowhere) Get([]byte) ([]byte, uint32, bool)       { return nil, 0, false }
func (nowhere) Set(_, _ []byte, _ uint32) table.Outcome { return table.Failed }

// However many workers there are, the capacity holds. A worker without memory to share decides alone.
func TestManyWorkersOrNone(t *testing.T) {
	c := crowd{world: newWorld(t, 260, shedRules(256, "", ""))}
	for range 3 {
		for worker := range c.workers {
			c.come(worker, shed.Critical, "ann")
		}
		c.pass(100)
	}
	if n := len(c.open); n != 256 {
		t.Errorf("%d in flight, want 256", n)
	}
	c = crowd{world: newWorld(t, 0, shedRules(5, "", ""))}
	c.workers = []*Worker{New(c.config, nowhere{}, [6]uint64{1, 2, 3, 4, 5, 6}, c.now, c.wall())}
	if n := c.comes(10, shed.Critical); n != 5 {
		t.Errorf("%d in flight by a worker alone", n)
	}
}
