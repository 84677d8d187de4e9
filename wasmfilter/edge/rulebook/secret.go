package rulebook

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
)

// keySecret is the record of the secret under which keys are hashed. It is nowhere else than here and in the workers.
var keySecret = []byte("secret")

// Secret is what keys of rules with hash: true are hashed under; nil: there is none yet.
func (b *Rulebook) Secret() *rule.Secret { return b.secret }

// SecretFingerprint is that of the secret; 0: there is none.
func (b *Rulebook) SecretFingerprint() uint64 {
	if b.secret == nil {
		return 0
	}
	return b.secret.Fingerprint()
}

// LacksSecret takes the fingerprint of the region's secret that a reply names; 0: it has none. It
// reports whether the worker should fetch it.
func (b *Rulebook) LacksSecret(now lease.Millis, fingerprint uint64) bool {
	if fingerprint == 0 || fingerprint == b.SecretFingerprint() {
		return false
	}
	b.loadSecret() // another worker may have it
	return fingerprint != b.SecretFingerprint() && b.claimFetch(now, fetchSoonest)
}

// OfferSecret takes a secret as it is fetched; empty: the worker has it, or there is none.
func (b *Rulebook) OfferSecret(raw []byte) {
	if !b.useSecret(raw) {
		return
	}
	b.pop.Store.Set(keySecret, b.secret[:], 0)
}

// loadSecret takes the secret that another worker has fetched.
func (b *Rulebook) loadSecret() {
	raw, _, _ := b.pop.Store.Get(keySecret)
	b.useSecret(raw)
}

// useSecret reports whether the worker has another secret now.
func (b *Rulebook) useSecret(raw []byte) bool {
	if len(raw) != len(b.secret) || b.secret != nil && string(raw) == string(b.secret[:]) {
		return false
	}
	b.secret = new(rule.Secret)
	copy(b.secret[:], raw)
	return true
}
