package uplink

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// rulesTimeout is how long a call for the rules may take.
const rulesTimeout lease.Millis = 1000

// FetchRules asks the region for its rules. Those that the worker has, or lately rejected,
// need not be sent.
func (u *Uplink) FetchRules(now lease.Millis) {
	m := wire.RulesRequest{Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax, HaveVersion: u.rules.Have(now), Pop: u.cfg.PoP, HaveSecret: u.rules.SecretFingerprint()}
	u.fetches = append(u.fetches, u.port.call(Call{Path: RulesPath, Body: m.Append(nil), Timeout: rulesTimeout}))
}

// fetched takes the end of a call; false if it was not one for the rules.
func (u *Uplink) fetched(id uint64) bool {
	i := slices.Index(u.fetches, id)
	if i < 0 {
		return false
	}
	u.fetches = slices.Delete(u.fetches, i, i+1)
	return true
}

// offer takes the region's rules.
func (u *Uplink) offer(now lease.Millis, body []byte) CallResult {
	var m wire.RulesResponse
	switch err := m.Decode(body); {
	case err != nil:
		return u.port.unusable(err)
	case !wire.Supported(m.Protocol):
		return u.port.unusable(wire.OtherVersion(m.Protocol))
	}
	u.watched(now, m.WatchMs)
	u.rules.OfferSecret(m.Secret)
	u.rules.Offer(now, m.RulesVersion, m.RulesRevision, m.Rules)
	return CallAnswered
}
