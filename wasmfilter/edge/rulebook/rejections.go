package rulebook

import (
	"encoding/binary"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// rejectedFor is how long a version of the rules that could not be used is not
	// fetched again.
	rejectedFor lease.Millis = 60_000
	// maxRejected is how many such versions are remembered: replicas have two in a roll.
	maxRejected = 4
)

// rejection is a version of the rules that could not be used. All workers share them.
type rejection struct {
	at      lease.Millis // when it was rejected
	seen    lease.Millis // when a reply last named it
	version string
}

func (r *rejection) stands(now lease.Millis) bool { return now < r.at+rejectedFor }

// Have is the version of the rules that need not be sent: that in force, or that which was
// rejected last, and lately.
func (b *Rulebook) Have(now lease.Millis) string {
	if all, _ := b.rejections(); len(all) > 0 && all[len(all)-1].stands(now) {
		return all[len(all)-1].version
	}
	return b.Version
}

// rejections reads the record of rejections, the oldest first.
func (b *Rulebook) rejections() (all []rejection, version uint32) {
	raw, version, ok := b.pop.Store.Get(keyRejected)
	if !ok {
		return nil, table.Absent
	}
	for len(raw) >= 24 {
		n := min(binary.LittleEndian.Uint64(raw[16:]), uint64(len(raw)-24))
		all = append(all, rejection{
			at:      lease.Millis(binary.LittleEndian.Uint64(raw)),
			seen:    lease.Millis(binary.LittleEndian.Uint64(raw[8:])),
			version: string(raw[24 : 24+n]),
		})
		raw = raw[24+n:]
	}
	return all, version
}

// setRejections writes the record; one that another worker has changed meanwhile stays.
func (b *Rulebook) setRejections(all []rejection, version uint32) {
	var raw []byte
	for _, r := range all {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(r.at))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(r.seen))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(len(r.version)))
		raw = append(raw, r.version...)
	}
	b.pop.Store.Set(keyRejected, raw, version)
}

// reject notes that a version cannot be used.
func (b *Rulebook) reject(now lease.Millis, version string) {
	all, v := b.rejections()
	all = slices.DeleteFunc(all, func(r rejection) bool { return r.version == version })
	if len(all) >= maxRejected {
		all = all[1:]
	}
	b.setRejections(append(all, rejection{now, now, version}), v)
}

// unusable reports whether a version that a reply shows was rejected lately, and notes
// that it was seen.
func (b *Rulebook) unusable(now lease.Millis, version string) bool {
	all, v := b.rejections()
	for i := range all {
		r := &all[i]
		if r.version != version || !r.stands(now) {
			continue
		}
		if now >= r.seen+b.cfg.RulesEvery/2 {
			r.seen = now
			b.setRejections(all, v)
		}
		return true
	}
	return false
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
	all, _ := b.rejections()
	if !slices.ContainsFunc(all, func(r rejection) bool { return now < r.seen+max(2*b.cfg.RulesEvery, errorStays) }) {
		b.Error = b.cfg.Error
	}
}
