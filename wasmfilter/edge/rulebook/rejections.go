package rulebook

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
)

// rejectedFor is how long a version of the rules that could not be used is not fetched again.
const rejectedFor lease.Millis = 60_000

// rejection is the version of the rules that could not be used last. All workers share it. The zero value is none.
type rejection struct {
	at      lease.Millis // when it was rejected
	seen    lease.Millis // when a reply last named it
	version string
}

// stands reports whether the version is not fetched again.
func (r *rejection) stands(now lease.Millis, version string) bool {
	return r.version == version && version != "" && now < r.at+rejectedFor
}

// Have is the version of the rules that need not be sent: that in force, or that which was
// rejected last, and lately.
func (b *Rulebook) Have(now lease.Millis) string {
	if r, _ := b.rejection(); r.stands(now, r.version) {
		return r.version
	}
	return b.Version
}

// rejection reads the record.
func (b *Rulebook) rejection() (r rejection, version uint32) {
	raw, version, ok := b.pop.Store.Get(keyRejected)
	if !ok || len(raw) < 16 {
		return r, version
	}
	return rejection{lease.Millis(binary.LittleEndian.Uint64(raw)), lease.Millis(binary.LittleEndian.Uint64(raw[8:])), string(raw[16:])}, version
}

// setRejection writes the record; with a version of it only if no other worker has changed it meanwhile.
func (b *Rulebook) setRejection(r rejection, version uint32) {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(r.at))
	raw = binary.LittleEndian.AppendUint64(raw, uint64(r.seen))
	b.pop.Store.Set(keyRejected, append(raw, r.version...), version)
}

// reject notes that a version cannot be used. Replicas in a roll may have two such versions: each is then fetched again when a
// reply names it, by one worker in [fetchSoonest].
func (b *Rulebook) reject(now lease.Millis, version string) {
	b.setRejection(rejection{now, now, version}, 0)
}

// unusable reports whether a version that a reply shows was rejected lately, and notes
// that it was seen.
func (b *Rulebook) unusable(now lease.Millis, version string) bool {
	r, v := b.rejection()
	if !r.stands(now, version) {
		return false
	}
	if now >= r.seen+b.cfg.RulesEvery/2 {
		r.seen = now
		b.setRejection(r, v)
	}
	return true
}

// errorStays bounds from below how long the config error about rules of the region stays
// after a reply has shown them: a few fetches may fail.
const errorStays lease.Millis = 5000

// clearError ends the config error about rules of the region when no reply has shown them for
// twice the time between two fetches.
func (b *Rulebook) clearError(now lease.Millis) {
	if b.Error == b.cfg.Error {
		return
	}
	if r, _ := b.rejection(); now >= r.seen+max(2*b.cfg.RulesEvery, errorStays) {
		b.Error = b.cfg.Error
	}
}
