// Package membudget bounds and divides the memory of a process.
package membudget

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Least and Most are the range of the memory of a process, in bytes.
const (
	Least int64 = 64 << 20
	Most  int64 = 1 << 50
)

const (
	unlimited     int64 = 1 << 30 // without a limit of the cgroup
	cgroupPercent       = 85
	own           int64 = 48 << 20
	// callerBytes is what a worker takes that is the only one of the only PoP of its address: others take less.
	callerBytes = 900
)

// Limit makes a number of bytes the limit of this process and returns it. 0 means 85 % of the memory of
// the process's cgroup, and without such a limit 1 GiB. It returns an error if that is too little.
func Limit(bytes int64, log *slog.Logger) (int64, error) {
	by := "max_memory"
	remedy := "write 64 MiB or more"
	env := os.Getenv("GOMEMLIMIT")
	bounded := env != "" && env != "off"
	switch {
	case bounded && bytes != 0:
		return 0, errors.New("max_memory: GOMEMLIMIT is set in the environment, too; keep one of the two")
	case bounded:
		by, bytes = "GOMEMLIMIT", debug.SetMemoryLimit(-1) // reads it
	case bytes == 0:
		limit, err := memlimit.FromCgroup()
		remedy = "give this container or unit 76 MiB or more, of which 85 % are taken"
		if by, bytes = "cgroup", int64(min(limit, uint64(Most))/100*cgroupPercent); err != nil {
			by, bytes = "default", unlimited
			log.Debug("cgroup without a limit of memory", "reason", err)
		}
	}
	if bytes < Least {
		return 0, fmt.Errorf("max_memory: %d MiB by %s is too little; %s", bytes>>20, by, remedy)
	}
	debug.SetMemoryLimit(bytes)
	log.Info("memory", "most", fmt.Sprint(bytes>>20, "MiB"), "by", by)
	return bytes, nil
}

// Budget is how much memory may be used by what callers make grow.
type Budget struct {
	Table   int64 // bytes of each table of keys, as the table counts them
	Callers int   // workers of PoPs
	Calls   int64 // bytes of calls in flight
}

// Divide divides the memory of a process; 0 is what [Limit] takes without a limit of the cgroup. The runtime
// collects garbage more often before it takes more than that, without end if live data leave no room for garbage:
//
//	an eighth              calls in flight
//	48 MiB                 the program, rules, connections; also of the garbage's part, if need be
//	half of the rest       garbage
//	half of the rest       so many tables of keys, in equal parts; of it an eighth is for callers
//
// A table counts its entries. With what Go's heap takes beside them (a sixth was measured) four tenths of the rest
// are half of it.
func Divide(bytes int64, tables int) Budget {
	if bytes == 0 {
		bytes = unlimited
	}
	data := (bytes - bytes/8 - own) / 5 * 2
	return Budget{Table: (data - data/8) / int64(max(tables, 1)), Callers: int(data / 8 / callerBytes), Calls: bytes / 8}
}
