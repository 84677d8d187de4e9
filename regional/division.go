package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/admin"
)

const (
	divisionCheck = time.Second
	divisionQuiet = time.Minute // between two lines of the log
)

// divided is why a region is not ready that shares its PoPs with another one.
const divided = "the same PoPs are answered by another region, too, whose counters are its own: each grants the whole limit. Run one replica with counters in memory, or give all of them a store that they share with --redis; or see to it that the PoPs' region_cluster leads to one region"

// watchDivision refuses readiness while PoPs tell that another store answers them in turns
// with this one, until ctx ends.
func watchDivision(ctx context.Context, told func() bool, ready *admin.Readiness, log *slog.Logger) error {
	tick := time.NewTicker(divisionCheck)
	defer tick.Stop()
	var quiet time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if !told() {
				ready.Allow(divided)
				continue
			}
			ready.Refuse(divided)
			if now.After(quiet) {
				log.Error("not ready", "reason", divided)
				quiet = now.Add(divisionQuiet)
			}
		}
	}
}
