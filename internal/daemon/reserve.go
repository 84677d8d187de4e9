package daemon

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/statefile"
	"github.com/weirlimit/weir/internal/upstream"
)

// newKeeper makes what keeps the record of the region's reserve: in Redis, for all replicas of the region, or in
// this process, which is the region then.
func (t *Tier) newKeeper(region string) *upstream.Keeper {
	c := t.store
	cell, id := c.cell, uint64(0)
	if c.record != nil {
		cell = c.record(region)
	} else if c.state != "" {
		id = keptID(c.state+".reserve", t.Log)
	}
	t.keeper = upstream.NewKeeper(upstream.KeeperConfig{
		Cell: cell, Region: region, ID: id, Timeout: t.cfg.RedisOf.Timeout, Log: t.Log,
		Windows: func() []reserve.Window {
			if windows := t.windows.Load(); windows != nil {
				return *windows
			}
			return nil
		},
	})
	return t.keeper
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

// sharePerMille is what PoPs are told of the region's share: that which was issued to it or, as long as none is known,
// that of the rules. 0: the rules name no regions, or this is none. A region without a share has a thousandth, because 0
// would leave the whole limit to a PoP that is cut off.
func (t *Tier) sharePerMille() uint32 {
	regions := t.regions.Load()
	if t.keeper == nil || regions == nil || len(*regions) == 0 {
		return 0
	}
	return uint32(max(t.keeper.ShareBy(*regions), 1))
}
