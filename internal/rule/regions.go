package rule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Region is a region and its weight when shares are cut from limits with
// [ScopeGlobal].
type Region struct {
	Name   string // see IsRegion; unique
	Weight int64  // 1 to 1000
}

// Regions are the regions that have shares, sorted by name. None: no region has one.
type Regions []Region

// MaxRegions bounds the regions of a set.
const MaxRegions = 64

// RegionForm is what [IsRegion] accepts, for messages.
const RegionForm = "1 to 64 letters, digits, -, . or _"

// IsRegion reports whether a region can have this name: in rules, settings, calls and
// certificates, which are compared with each other byte by byte.
func IsRegion(name string) bool {
	return name != "" && len(name) <= MaxName && !strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) && r != '.' })
}

var weightRange = span{1, 1000}

// Share is the part of so many units, 0 to limit.MaxCount, that a region may admit while it
// is cut off from the others. It is rounded down, so that all parts together are no more than
// units. A region that is not among rs has none.
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

// Divide reports whether the regions have shares of a limit: of one that they count together and that each goes on
// with by itself while it is cut off.
func (rs Regions) Divide(s Scope, by lease.OnFailure) bool {
	return len(rs) > 0 && s == ScopeGlobal && by == lease.FailureLocal
}

// sorted is a copy of rs in the order of their names.
func (rs Regions) sorted() Regions {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b Region) int { return strings.Compare(a.Name, b.Name) })
	return rs
}

// regions checks the regions of a set.
func (c *checker) regions(rs Regions) {
	c.refuse(len(rs) > MaxRegions, "regions", "has "+strconv.Itoa(len(rs))+" regions; write at most "+strconv.Itoa(MaxRegions))
	for i, r := range rs {
		field := strict.Join("regions", r.Name)
		c.refuse(!IsRegion(r.Name), field, "is no name of a region; write "+RegionForm)
		c.refuse(i > 0 && rs[i-1].Name == r.Name, field, "is there twice; write each region once")
		c.refuse(r.Weight < weightRange.low || r.Weight > weightRange.high, field,
			strconv.FormatInt(r.Weight, 10)+" is out of range; write "+weightRange.String())
	}
}

const regionForms = "regions and their weights, such as { eu: 3, us: 1 }"

// readRegions reads a mapping of names to weights.
func readRegions(v strict.Value) (rs Regions) {
	if !v.Is(strict.Object, regionForms) {
		return nil
	}
	if len(v.Names()) == 0 {
		v.Fail("is empty; write " + regionForms + ", or leave it out")
	}
	for _, name := range v.Names() {
		rs = append(rs, Region{Name: name, Weight: integer(v.Field(name), weightRange)})
	}
	return rs
}

func (w *writer) regions(rs Regions) {
	if len(rs) == 0 {
		return
	}
	w.field("regions").open('{')
	for _, r := range rs {
		w.field(r.Name).int(r.Weight)
	}
	w.close('}')
}
