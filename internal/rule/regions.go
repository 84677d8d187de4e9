package rule

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
)

// Region is a region and its weight when shares are cut from limits with
// [ScopeGlobal].
type Region struct {
	Name   string // see IsRegion; unique
	Weight int64  // 1 to 1000
}

// Regions are the regions that have shares, sorted by name. Empty: no region has one.
type Regions []Region

// MaxRegions bounds the regions of a set.
const MaxRegions = 64

// RegionForm is what [IsRegion] accepts, for messages.
const RegionForm = "1 to 64 letters, digits, -, . or _"

// IsRegion reports whether a region can have this name: in rules, settings, calls and
// certificates, which are compared with each other byte by byte.
func IsRegion(name string) bool {
	return name != "" && len(name) <= MaxName && !strings.ContainsFunc(name, func(r rune) bool { return !IsNameRune(r) && r != '.' })
}

// Share is how many of these units, 0 to limit.MaxCount, a region may admit while it is cut
// off from the others. It is rounded down: all shares together are at most units. A region
// that is not among rs has none.
func (rs Regions) Share(name string, units int64) int64 {
	var weight, sum int64
	for _, r := range rs {
		sum += r.Weight
		if r.Name == name {
			weight = r.Weight
		}
	}
	if weight == 0 {
		return 0
	}
	return units * weight / sum
}

// Divide reports whether the regions have shares of a limit. They do if they count it
// together, and each goes on by itself while it is cut off.
func (rs Regions) Divide(s Scope, by lease.OnFailure) bool {
	return len(rs) > 0 && s == ScopeGlobal && by == lease.FailureLocal
}
