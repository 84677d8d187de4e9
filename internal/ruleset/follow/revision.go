package follow

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/rule"
)

// oldest is the oldest time of a file that is used as its age, in Unix ms: 2000. Archives
// and images with reproducible builds have 1970, 1980 or the end of 1999, which does not
// show which of two files is newer.
const oldest = 946_684_800_000

// order gives each set of rules its revision: the one in its document or, without that,
// the time of its file in Unix ms. Rules that this process reads later are newer than those
// that it read before, also where a file was replaced by one with an older time.
type order struct {
	last    uint64    // of the set in force
	content string    // of the set in force, see rule.Set; empty: none yet
	newest  *rule.Set // the newest that was in force, which edges keep; nil: none yet
	log     *slog.Logger
}

// date returns a set with its revision. A time in the future counts as now: no edge
// should keep these rules until then.
func (o *order) date(set *rule.Set, modified, now time.Time) *rule.Set {
	ms := min(modified.UnixMilli(), now.UnixMilli())
	if ms < oldest {
		return set.Dated(0)
	}
	revision := uint64(ms)
	switch {
	case o.content == "":
	case set.Content == o.content:
		revision = max(revision, o.last)
	default:
		revision = max(revision, o.last+1)
	}
	return set.Dated(revision)
}

// applied notes that a set is in force, and warns of an order that edges cannot follow.
func (o *order) applied(set *rule.Set) {
	switch {
	case set.Revision == 0:
		o.log.Warn("rules: the file has neither a revision nor a usable modification time", "version", set.Version,
			"remedy", "state a revision in the file, such as revision: 1")
	case o.newest == nil:
	case set.Revision < o.newest.Revision:
		o.log.Warn("rules: smaller revision than before; PoPs keep the earlier rules", "version", set.Version, "before", o.newest.Version, "larger_than", o.newest.Number())
	case set.Revision == o.newest.Revision && set.Version != o.newest.Version:
		o.log.Warn("rules: changed without a new revision; PoPs keep either version", "version", set.Version, "before", o.newest.Version, "larger_than", o.newest.Number())
	}
	o.last, o.content = set.Revision, set.Content
	if o.newest == nil || set.Revision > o.newest.Revision {
		o.newest = set.WithoutKeys()
	}
}
