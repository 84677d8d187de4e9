package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/statefile"
	"github.com/weirlimit/weir/internal/upstream"
)

// newKeeper makes what keeps the record of the region's reserve: in Redis, for all replicas of the region, or in
// this process, which is the region then.
func (t *Tier) newKeeper(region string) *upstream.Keeper {
	c := upstream.KeeperConfig{Region: region, Timeout: t.cfg.RedisOf.Timeout, Log: t.Log, Windows: t.rules.withShares}
	if redis := t.counters.redis; redis != nil {
		c.Cell = redis.Record(region)
	} else {
		c.Cell = t.counters.memory.NewCell()
		if s := t.counters.snapshots; s != nil {
			c.ID = keptID(s.path+".reserve", t.Log)
		}
	}
	t.rules.keeper = upstream.NewKeeper(c)
	return t.rules.keeper
}

// keptID is the ID of the region's record in the process before this one, which is kept beside the state file. A region
// that starts again is the same one for the aggregator.
func keptID(path string, log *slog.Logger) (id uint64) {
	_, err := statefile.Read(path, func(record []byte) error {
		if len(record) == 8 {
			id = binary.LittleEndian.Uint64(record)
		}
		return nil
	})
	if id != 0 {
		return id
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("cannot read the ID of the reserve's record; the aggregator refuses a new one for two seconds", "file", path, "error", err)
	}
	id = max(rand.Uint64(), 1)
	w, err := statefile.Create(path, statefile.Header{Saved: time.Now().UTC(), PID: os.Getpid()})
	if err == nil {
		w.Put(binary.LittleEndian.AppendUint64(nil, id))
		_, err = w.Commit()
	}
	if err != nil {
		log.Warn("cannot save the ID of the reserve's record; after a restart the aggregator refuses a new one for two seconds", "file", path, "error", err)
	}
	return id
}

// sharesCell is the cell of all aggregators in Redis or, without Redis, that of this process, beside the state file.
func (c *counters) sharesCell(log *slog.Logger) engine.Cell {
	switch {
	case c.redis != nil:
		return c.redis.Shares()
	case c.snapshots != nil:
		return newKeptCell(c.snapshots.path+".shares", c.memory.NewCell(), log)
	}
	return c.memory.NewCell()
}

// keptCell is a cell of this process that outlives it in a file beside the state file, on whose lock it relies. What
// cannot be saved is stored all the same.
type keptCell struct {
	engine.Cell
	path string
	log  *slog.Logger

	mu     sync.Mutex
	failed bool // the last save
}

// newKeptCell makes one with what the process before has stored.
func newKeptCell(path string, c engine.Cell, log *slog.Logger) *keptCell {
	_, err := statefile.Read(path, func(record []byte) error {
		_, _, err := c.Swap(context.Background(), nil, record)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Error("cannot read the table of reserves; it is rebuilt from what regions state", "file", path, "error", err)
	}
	return &keptCell{Cell: c, path: path, log: log}
}

func (c *keptCell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, now, err = c.Cell.Swap(ctx, old, next)
	if err == nil && next != nil && string(found) == string(old) {
		c.save(next)
	}
	return found, now, err
}

// save writes the file. A failure is logged when the save before succeeded.
func (c *keptCell) save(value []byte) {
	err := c.write(value)
	if err != nil && !c.failed {
		c.log.Error("cannot save the table of reserves; the file has the last save", "file", c.path, "error", err)
	}
	c.failed = err != nil
}

func (c *keptCell) write(value []byte) error {
	w, err := statefile.Create(c.path, statefile.Header{Saved: time.Now().UTC(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	w.Put(value)
	_, err = w.Commit()
	return err
}

// windowsOf are those of all limits of which regions have a share.
func windowsOf(set *rule.Set) []reserve.Window {
	windows, known := []reserve.Window{}, map[reserve.Window]bool{}
	add := func(s limit.Spec) {
		if w := reserve.WindowOf(s); !known[w] {
			windows, known[w] = append(windows, w), true
		}
	}
	for i := range set.Len() {
		r := set.Rule(i)
		if !set.Regions().Divide(r.Scope, r.OnFailure) {
			continue
		}
		for v := range r.Limits {
			add(set.Limit(i, v).Spec())
		}
		for _, k := range r.Keys {
			add(k.Limit)
		}
	}
	return windows
}

// withShares are the windows of the limits in force of which regions have a share.
func (r *rules) withShares() []reserve.Window {
	if windows := r.windows.Load(); windows != nil {
		return *windows
	}
	return nil
}

// sharePerMille is what PoPs are told of the region's share: that which was issued to it or, as long as none is known,
// that of the rules. 0: the rules name no regions, or this is none. A region without a share has a thousandth,
// because 0 would leave the whole limit to a PoP that is cut off.
func (r *rules) sharePerMille() uint32 {
	regions := r.regions.Load()
	if r.keeper == nil || regions == nil || len(*regions) == 0 {
		return 0
	}
	return uint32(max(r.keeper.ShareBy(*regions), 1))
}
