package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// fetchSoonest is the least time between two fetches of the rules, by whichever
	// worker.
	fetchSoonest lease.Millis = 250
	rulesTimeout lease.Millis = 1000
	// orderedFor is for how long rules that have an order are not replaced by ones that
	// have none, after a granter was heard whose rules have one. Without an end to it a
	// region that goes back to an older release could not change its rules any more.
	orderedFor lease.Millis = 60_000
	// orderedEvery is how exactly workers tell each other that they heard one.
	orderedEvery lease.Millis = 5000
)

// newer reports whether rules of the region replace those in force. Where all granters
// have an order nothing is ever replaced by something older, so that granters with
// different rules cannot have a PoP go to and fro. Of two versions with one revision
// the larger one counts as newer: that is arbitrary, and the same at every PoP.
func (w *Worker) newer(now lease.Millis, version string, revision uint64) bool {
	switch {
	case w.rules == nil || w.rulesBundled:
		return true
	case version == w.RulesVersion():
		return false
	case revision == 0:
		return w.rulesRevision == 0 || now >= w.ordered+orderedFor
	case revision == w.rulesRevision:
		return version > w.RulesVersion()
	}
	return revision > w.rulesRevision
}

// seeRules looks at what a reply tells about the rules of its granter, and has them
// fetched if they are newer.
func (w *Worker) seeRules(now lease.Millis, version string, revision uint64) {
	if version == "" {
		return
	}
	w.rulesHeard = now
	if revision != 0 {
		w.ordered = now
	}
	switch {
	case version == w.RulesVersion():
		w.confirm(revision)
	case w.newer(now, version, revision) && !w.unusable(now, version):
		w.fetchRules(now, fetchSoonest)
	}
}

// confirm notes that a granter has the rules in force, with that revision. They may have
// come back as they were, and bundled ones are then the region's.
func (w *Worker) confirm(revision uint64) {
	if !w.rulesBundled && revision <= w.rulesRevision {
		return
	}
	w.rulesBundled, w.rulesRevision = false, max(w.rulesRevision, revision)
	w.updateRulesTag(func(t *rulesTag) bool {
		if t.generation != w.rulesGen || !t.bundled && t.revision >= revision {
			return false
		}
		t.bundled, t.revision = false, max(t.revision, revision)
		return true
	})
}

// fetchRules asks the region for its rules unless some worker did within the last
// least milliseconds. Rules that were refused lately count as those that it has: they
// need not be sent again.
func (w *Worker) fetchRules(now, least lease.Millis) {
	tag, version := w.rulesTag()
	if version != table.Absent && tag.fetched != 0 && now-tag.fetched < least {
		return
	}
	tag.fetched = now
	if !w.setRulesTag(version, tag) {
		return // somebody else fetches them
	}
	m := wire.RulesRequest{Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax, HaveVersion: w.RulesVersion(), Pop: w.cfg.PoP}
	if refused := w.lastRefused(now); refused != "" {
		m.HaveVersion = refused
	}
	c := Call{ID: w.callID(), Path: RulesPath, Body: m.Append(nil), Timeout: rulesTimeout}
	w.calls[c.ID] = &call{sent: now}
	w.Calls = append(w.Calls, c)
}

// rulesReply takes the region's rules, if they are newer. What cannot be used is
// refused as a whole, and what is in force stays so.
func (w *Worker) rulesReply(now lease.Millis, body []byte) {
	var m wire.RulesResponse
	switch err := m.Decode(body); {
	case err != nil:
		w.Counts.Calls[w.malformed(err.Error())]++
		return
	case !wire.Spoken(m.Protocol):
		w.Counts.Calls[w.otherVersion(m.Protocol)]++
		return
	}
	w.Counts.Calls[CallAnswered]++
	w.catchUp()
	if m.RulesRevision != 0 {
		w.ordered = now
	}
	switch {
	case m.RulesVersion == w.RulesVersion():
		w.confirm(m.RulesRevision)
	case w.newer(now, m.RulesVersion, m.RulesRevision) && !w.unusable(now, m.RulesVersion) && len(m.Rules) > 0:
		w.takeRules(now, &m)
	}
}

// takeRules puts newer rules into force, or refuses them.
func (w *Worker) takeRules(now lease.Millis, m *wire.RulesResponse) {
	set, err := rule.Decode(m.Rules)
	if err != nil {
		w.ConfigError = "rules of the region: " + err.Error()
		w.refuseRules(now, m.RulesVersion)
		return
	}
	w.ConfigError = w.cfg.Error
	if set.Version != m.RulesVersion { // a release that spells them otherwise: once is enough
		w.refuseRules(now, m.RulesVersion)
	}
	if set.Version != w.RulesVersion() {
		w.publish(now, set, m.RulesRevision, false)
	}
}
