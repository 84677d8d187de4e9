package lint

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// manyPerSecond is the rate from which an exact rule deserves a thought: each request that it admits asks the region.
const manyPerSecond = 10_000

// logins are what the name or a path of a rule against guessing has in it.
var logins = []string{"login", "signin", "sign-in", "logon", "auth", "password", "passwd", "otp", "2fa", "mfa", "token"}

// limit checks what the rule admits.
func (l *linter) limit() {
	r := l.rule
	for i := range r.Limits {
		if r.Limits[i].Unlimited {
			continue
		}
		l.limits(fieldOf(i), r.Limits[i].Limit)
	}
	if a := &r.Cost.Actual; a.From.Native() && a.Stated() {
		l.warn("native-module-only", "cost.actual", "only the native module sees a %s of responses: with the WASM module each request costs its estimate; write header or metadata, or use the native module", a.From)
	}
	if r.OnFailure == lease.FailureAllow && r.Scope != rule.ScopePoP && l.aboutLogin() {
		l.warn("login-fails-open", "on_failure", "allow admits every request while the region is unavailable, and this looks like a limit against guessing; write deny, or local")
	}
}

func (l *linter) limits(field string, s limit.Spec) {
	r := l.rule
	if r.Consistency == lease.Optimistic && r.Overdraft > s.Count && s.Count > 0 {
		l.warn("overdraft-above-limit", field, "each PoP may admit %d units while it asks, more than the limit of %d; write overdraft: %d or less", r.Overdraft, s.Count, s.Count)
	}
	if s.Algorithm == limit.Concurrency || s.Period == 0 {
		return
	}
	if perSecond := s.Count / max(1, int64(s.Period/limit.Second)); r.Consistency == lease.Exact && r.Scope != rule.ScopePoP && perSecond >= manyPerSecond {
		l.warn("exact-at-high-rate", field, "exact asks the region for each request, here %d times a second for one key; write consistency: leased", perSecond)
	}
	if r.Scope == rule.ScopeGlobal && r.ConsistencyOf(s) != lease.Exact && lease.Few(s, true) {
		l.warn("small-leased-limit", field, "%d units are too few to be leased to several regions: requests may be rejected while other regions have units left; leave consistency out, or write exact", s.Count)
	}
}

// fieldOf is where the limit i of a rule stands.
func fieldOf(i int) string {
	if i == 0 {
		return "limit"
	}
	return override(i) + ".limit"
}

func (l *linter) aboutLogin() bool {
	texts := []string{l.rule.Name}
	for _, p := range l.rule.Match.Paths {
		texts = append(texts, p.Arg)
	}
	text := strings.ToLower(strings.Join(texts, "\n"))
	return slices.ContainsFunc(logins, func(word string) bool { return strings.Contains(text, word) })
}
