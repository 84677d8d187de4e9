package rulebook

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule/read"
)

// newer reports whether rules of the region replace those in force. Where all granters
// have an order nothing is ever replaced by something older, so that a PoP does not switch
// to and fro between granters with different rules. If two versions have one revision, the
// larger version counts as newer: that is arbitrary, and the same at every PoP. Rules
// without an order replace only rules without one.
func (b *Rulebook) newer(version string, revision uint64) bool {
	switch {
	case b.InForce == nil || b.bundled:
		return true
	case version == b.Version:
		return false
	case revision == b.Revision && revision != 0:
		return version > b.Version
	}
	return revision >= b.Revision
}

// Note takes the version and the revision of its granter's rules that a reply names. It
// reports whether the worker should fetch them, because they are newer.
func (b *Rulebook) Note(now lease.Millis, version string, revision uint64) (fetch bool) {
	if version == "" {
		return false
	}
	b.sawAt = now
	return b.lacks(now, version, revision) && b.claimFetch(now, fetchSoonest)
}

// lacks notes which rules a granter has, and reports whether they should replace those in
// force.
func (b *Rulebook) lacks(now lease.Millis, version string, revision uint64) bool {
	if version == b.Version {
		b.confirm(revision)
		return false
	}
	return b.newer(version, revision) && !b.unusable(now, version)
}

// confirm notes that a granter has the rules in force, with that revision. They may have
// come back as they were, and bundled ones are then the region's.
func (b *Rulebook) confirm(revision uint64) {
	if !b.bundled && revision <= b.Revision {
		return
	}
	b.bundled, b.Revision = false, max(b.Revision, revision)
	b.updateTag(func(t *rulesTag) bool {
		if t.generation != b.generation || !t.bundled && t.revision >= revision {
			return false
		}
		t.bundled, t.revision = false, max(t.revision, revision)
		return true
	})
}

// Offer takes rules of the region as they are fetched, if they are newer. What cannot be
// used is rejected as a whole, and what is in force stays in force.
func (b *Rulebook) Offer(now lease.Millis, version string, revision uint64, rules []byte) {
	b.catchUp()
	if b.lacks(now, version, revision) && len(rules) > 0 {
		b.take(now, version, revision, rules)
	}
}

// take puts newer rules into force, or rejects them.
func (b *Rulebook) take(now lease.Millis, version string, revision uint64, rules []byte) {
	set, err := read.JSON(rules)
	if err != nil {
		b.Error = "rules of the region: " + err.Error()
		b.reject(now, version)
		return
	}
	b.Error = b.cfg.Error
	if set.Version != version { // a release that encodes them otherwise: once is enough
		b.reject(now, version)
	}
	if set.Version != b.Version {
		b.publish(now, set, revision, false)
	}
}
