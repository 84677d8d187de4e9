package edge

import (
	"encoding/binary"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// fetchSoonest is the least time between two fetches of the rules, by whichever
	// worker.
	fetchSoonest lease.Millis = 250
	rulesTimeout lease.Millis = 1000
)

// newer reports whether rules of the region replace those in force. Where all granters
// have an order nothing is ever replaced by something older, so that a PoP does not switch
// to and fro between granters with different rules. If two versions have one revision, the
// larger version counts as newer: that is arbitrary, and the same at every PoP. Rules
// without an order replace only rules without one.
func (b *rulebook) newer(version string, revision uint64) bool {
	switch {
	case b.inForce == nil || b.bundled:
		return true
	case version == b.version:
		return false
	case revision == b.revision && revision != 0:
		return version > b.version
	}
	return revision >= b.revision
}

// note takes the version and the revision of its granter's rules that a reply names,
// and has the rules fetched if they are newer.
func (b *rulebook) note(now lease.Millis, version string, revision uint64) {
	if version == "" {
		return
	}
	b.sawAt = now
	if b.lacks(now, version, revision) {
		b.fetch(now, fetchSoonest)
	}
}

// lacks notes which rules a granter has, and reports whether they should replace those in
// force.
func (b *rulebook) lacks(now lease.Millis, version string, revision uint64) bool {
	if version == b.version {
		b.confirm(revision)
		return false
	}
	return b.newer(version, revision) && !b.unusable(now, version)
}

// confirm notes that a granter has the rules in force, with that revision. They may have
// come back as they were, and bundled ones are then the region's.
func (b *rulebook) confirm(revision uint64) {
	if !b.bundled && revision <= b.revision {
		return
	}
	b.bundled, b.revision = false, max(b.revision, revision)
	b.updateTag(func(t *rulesTag) bool {
		if t.generation != b.generation || !t.bundled && t.revision >= revision {
			return false
		}
		t.bundled, t.revision = false, max(t.revision, revision)
		return true
	})
}

// fetch asks the region for its rules unless some worker did within the last least
// milliseconds. Rules that were refused last, and lately, count as those that it has: they
// need not be sent again.
func (b *rulebook) fetch(now, least lease.Millis) {
	tag, version := b.tag()
	if version != table.Absent && tag.fetched != 0 && now-tag.fetched < least {
		return
	}
	tag.fetched = now
	if !b.setTag(version, tag) {
		return // another worker fetches them
	}
	m := wire.RulesRequest{Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax, HaveVersion: b.version, Pop: b.cfg.PoP}
	if all, _ := b.refusals(); len(all) > 0 && all[len(all)-1].stands(now) {
		m.HaveVersion = all[len(all)-1].version
	}
	b.fetches = append(b.fetches, b.port.call(Call{Path: RulesPath, Body: m.Append(nil), Timeout: rulesTimeout}))
}

// ended takes the end of a call; false if it was not one for the rules.
func (b *rulebook) ended(id uint64) bool {
	i := slices.Index(b.fetches, id)
	if i < 0 {
		return false
	}
	b.fetches = slices.Delete(b.fetches, i, i+1)
	return true
}

// receive takes the region's rules, if they are newer. What cannot be used is
// refused as a whole, and what is in force stays in force.
func (b *rulebook) receive(now lease.Millis, body []byte) CallResult {
	var m wire.RulesResponse
	switch err := m.Decode(body); {
	case err != nil:
		return b.port.unusable(err)
	case !wire.Supported(m.Protocol):
		return b.port.unusable(wire.OtherVersion(m.Protocol))
	}
	b.catchUp()
	if b.lacks(now, m.RulesVersion, m.RulesRevision) && len(m.Rules) > 0 {
		b.take(now, &m)
	}
	return CallAnswered
}

// take puts newer rules into force, or refuses them.
func (b *rulebook) take(now lease.Millis, m *wire.RulesResponse) {
	set, err := read.JSON(m.Rules)
	if err != nil {
		b.port.ConfigError = "rules of the region: " + err.Error()
		b.refuse(now, m.RulesVersion)
		return
	}
	b.port.ConfigError = b.cfg.Error
	if set.Version != m.RulesVersion { // a release that encodes them otherwise: once is enough
		b.refuse(now, m.RulesVersion)
	}
	if set.Version != b.version {
		b.publish(now, set, m.RulesRevision, false)
	}
}

const (
	// refusedFor is how long a version of the rules that could not be used is not
	// fetched again.
	refusedFor lease.Millis = 60_000
	// mostRefused is how many such versions are remembered: replicas have two in a roll.
	mostRefused = 4
)

// refusal is a version of the rules that could not be used. All workers share them.
type refusal struct {
	at      lease.Millis // when it was refused
	seen    lease.Millis // when a reply last named it
	version string
}

func (r *refusal) stands(now lease.Millis) bool { return now < r.at+refusedFor }

// refusals reads the record of refusals, the oldest first.
func (b *rulebook) refusals() (all []refusal, version uint32) {
	raw, version, ok := b.pop.store.Get(keyRefused)
	if !ok {
		return nil, table.Absent
	}
	for len(raw) >= 24 {
		n := min(binary.LittleEndian.Uint64(raw[16:]), uint64(len(raw)-24))
		all = append(all, refusal{
			at:      lease.Millis(binary.LittleEndian.Uint64(raw)),
			seen:    lease.Millis(binary.LittleEndian.Uint64(raw[8:])),
			version: string(raw[24 : 24+n]),
		})
		raw = raw[24+n:]
	}
	return all, version
}

// setRefusals writes the record; one that another worker has changed meanwhile stays.
func (b *rulebook) setRefusals(all []refusal, version uint32) {
	var raw []byte
	for _, r := range all {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(r.at))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(r.seen))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(len(r.version)))
		raw = append(raw, r.version...)
	}
	b.pop.store.Set(keyRefused, raw, version)
}

// refuse notes that a version cannot be used.
func (b *rulebook) refuse(now lease.Millis, version string) {
	all, v := b.refusals()
	all = slices.DeleteFunc(all, func(r refusal) bool { return r.version == version })
	if len(all) >= mostRefused {
		all = all[1:]
	}
	b.setRefusals(append(all, refusal{now, now, version}), v)
}

// unusable reports whether a version that a reply shows was refused lately, and notes
// that it was seen.
func (b *rulebook) unusable(now lease.Millis, version string) bool {
	all, v := b.refusals()
	for i := range all {
		r := &all[i]
		if r.version != version || !r.stands(now) {
			continue
		}
		if now >= r.seen+b.cfg.RulesEvery/2 {
			r.seen = now
			b.setRefusals(all, v)
		}
		return true
	}
	return false
}

// forgiveLeast bounds from below how long the config error about rules of the region stays
// after a reply has shown them: a few fetches may fail.
const forgiveLeast lease.Millis = 5000

// forgive ends the config error about rules of the region when no reply has shown them for
// twice the time between two fetches.
func (b *rulebook) forgive(now lease.Millis) {
	if b.port.ConfigError == b.cfg.Error {
		return
	}
	all, _ := b.refusals()
	if !slices.ContainsFunc(all, func(r refusal) bool { return now < r.seen+max(2*b.cfg.RulesEvery, forgiveLeast) }) {
		b.port.ConfigError = b.cfg.Error
	}
}
