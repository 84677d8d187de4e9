package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
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
			c.ID = keptID(newKeptCell(s.path+".reserve", t.counters.memory.NewCell(), t.Log))
		}
	}
	t.rules.keeper = upstream.NewKeeper(c)
	return t.rules.keeper
}

// keptID is the ID of the region's record in the process before this one, which is kept beside the state file. A region
// that starts again is the same one for the aggregator. For two seconds the aggregator rejects a new one.
func keptID(c engine.Cell) uint64 {
	ctx := context.Background()
	found, _, _ := c.Swap(ctx, nil, nil) // a cell of this process does not fail
	if len(found) == 8 {
		return binary.LittleEndian.Uint64(found)
	}
	id := max(rand.Uint64(), 1)
	_, _, _ = c.Swap(ctx, found, binary.LittleEndian.AppendUint64(nil, id))
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
		log.Error("cannot read a record of reserves; starting a new record", "file", path, "error", err)
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
	_, err := statefile.Write(c.path, 0, func(put func([]byte)) { put(value) })
	if err != nil && !c.failed {
		c.log.Error("cannot save a record of reserves; a restart begins with the last save", "file", c.path, "error", err)
	}
	c.failed = err != nil
}

// withShares are the windows of the limits in force of which regions have a share.
func (r *rules) withShares() []reserve.Window { return r.inForce.Load().windows }

// sharePerMille is what PoPs are told of the region's share: that which was issued to it or, as long as none is known,
// that of the rules. 0: the rules name no regions, or this is none. A region without a share has a thousandth,
// because 0 would leave the whole limit to a PoP that is cut off.
func (r *rules) sharePerMille() uint32 {
	regions := r.inForce.Load().regions
	if r.keeper == nil || len(regions) == 0 {
		return 0
	}
	return uint32(max(r.keeper.ShareBy(regions), 1))
}
