package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// stored is a record as it is in a cell: JSON, so that people can read it.
type stored struct {
	Region string // a copy of another region's record is none
	reserve.Record
}

// encode is the text of a record.
func encode(region string, r reserve.Record) []byte {
	text, _ := json.Marshal(stored{region, r}) // it has nothing that JSON lacks
	return text
}

// decode reads a record; of nothing it is the zero one.
func decode(region string, text []byte) (reserve.Record, error) {
	if text == nil {
		return reserve.Record{}, nil
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return reserve.Record{}, err
	}
	if s.Region != region {
		return reserve.Record{}, errors.New("it is the record of region " + s.Region)
	}
	if err := s.Check(); err != nil {
		return reserve.Record{}, err
	}
	return s.Record, nil
}

// change reads the record and stores the next one. Without an error that is remembered, and may be used.
func (k *Keeper) change(ctx context.Context, next func(reserve.Record, limit.Micros) reserve.Record) error {
	ctx, cancel := context.WithTimeout(ctx, k.config.Timeout)
	defer cancel()
	select {
	case k.using <- struct{}{}:
		defer func() { <-k.using }()
	case <-ctx.Done():
		return ctx.Err()
	}
	text, now, err := k.swap(ctx, nil, nil)
	for err == nil {
		r := next(k.read(text), now)
		found, changed := text, encode(k.config.Region, r)
		if !bytes.Equal(changed, text) {
			found, now, err = k.swap(ctx, text, changed)
		}
		if err == nil && bytes.Equal(found, text) {
			k.remember(r, now)
			return nil
		}
		text = found // another replica was faster
	}
	return err
}

// swap uses the cell, and notes its clock.
func (k *Keeper) swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	found, now, err = k.config.Cell.Swap(ctx, old, next)
	if err == nil {
		k.mu.Lock()
		k.clock, k.at = now, time.Now()
		k.publish()
		k.mu.Unlock()
	}
	return found, now, err
}

// read is the record that a text has, put right by what this replica remembers. Where there is none it is an empty
// one with a new ID.
func (k *Keeper) read(text []byte) reserve.Record {
	r, err := decode(k.config.Region, text)
	if err != nil && k.unusable.Now() {
		k.config.Log.Error("cannot read the record of the reserve; replacing it",
			"region", k.config.Region, "error", err, "remedy", "let nothing else write to the region's store")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.ID != 0 && r.ID == k.bad {
		r = reserve.Record{}
	}
	if r = r.Remembered(k.memory); r.ID == 0 {
		if k.id == 0 {
			k.id = max(rand.Uint64(), 1)
		}
		r.ID = k.id
	}
	return r
}

func (k *Keeper) remember(r reserve.Record, now limit.Micros) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.ID != k.bad {
		k.memory, k.seen = r, now
		k.publish()
	}
}

// publish replaces the view. k.mu is locked.
func (k *Keeper) publish() {
	k.view.Store(&view{permission: k.memory.Permission(), seen: k.seen, clock: k.clock, at: k.at})
}
