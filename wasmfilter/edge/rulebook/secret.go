package rulebook

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
)

// keySecret is the record of the secret under which keys are hashed: its two words, and its
// fingerprint. It is nowhere else than here and in the workers.
var keySecret = []byte("secret")

// secret is that of a worker. The zero value has none.
type secret struct {
	value       rule.Secret
	fingerprint uint64 // 0: there is none
}

// Secret is what keys of rules with hash: true are hashed under; nil: there is none yet.
func (b *Rulebook) Secret() *rule.Secret {
	if b.secret.fingerprint == 0 {
		return nil
	}
	return &b.secret.value
}

// SecretFingerprint is that of the secret; 0: there is none.
func (b *Rulebook) SecretFingerprint() uint64 { return b.secret.fingerprint }

// LacksSecret takes the fingerprint of the region's secret that a reply names; 0: it has none. It
// reports whether the worker should fetch it.
func (b *Rulebook) LacksSecret(now lease.Millis, fingerprint uint64) bool {
	if fingerprint == 0 || fingerprint == b.secret.fingerprint {
		return false
	}
	b.loadSecret() // another worker may have it
	return fingerprint != b.secret.fingerprint && b.claimFetch(now, fetchSoonest)
}

// OfferSecret takes a secret as it is fetched; empty: the worker has it, or there is none.
func (b *Rulebook) OfferSecret(raw []byte) {
	var s rule.Secret
	if len(raw) != len(s) {
		return
	}
	copy(s[:], raw)
	b.secret = secret{value: s, fingerprint: s.Fingerprint()}
	var old [3]uint64
	version := b.pop.Record(keySecret, old[:])
	b.pop.SetRecord(keySecret, version, binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:]), b.secret.fingerprint)
}

// loadSecret takes the secret that another worker has fetched.
func (b *Rulebook) loadSecret() {
	var words [3]uint64
	b.pop.Record(keySecret, words[:])
	if words[2] == 0 || words[2] == b.secret.fingerprint {
		return
	}
	binary.LittleEndian.PutUint64(b.secret.value[:], words[0])
	binary.LittleEndian.PutUint64(b.secret.value[8:], words[1])
	b.secret.fingerprint = words[2]
}
