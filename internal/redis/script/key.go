package script

import (
	"strconv"

	"github.com/weirlimit/weir/internal/engine"
)

// AppendKey appends the name of the counter of a policy and a key:
//
//	weir:{<rule>:<key>}<override>.<shape>.<layout>
//
// where override, shape and the version of the values' layout are in hexadecimal. No two counters share a name: '%' and
// '}', and in the rule ':', are written as % and two digits. So the braces hold exactly
// the rule and the key, and all counters of a rule's overrides for one key are in one
// slot of a cluster.
func AppendKey(dst []byte, p *engine.Policy, key []byte) []byte {
	dst = append(dst, "weir:{"...)
	for i := range len(p.Rule) {
		dst = appendEscaped(dst, p.Rule[i], p.Rule[i] == ':')
	}
	dst = append(dst, ':')
	for _, c := range key {
		dst = appendEscaped(dst, c, false)
	}
	dst = append(dst, '}')
	dst = strconv.AppendUint(dst, p.Override, 16)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, p.Limit.Shape(), 16)
	return append(dst, '.', "0123456789abcdef"[layout])
}

// AppendDebtKey appends the name under which a debt of an ask is remembered once it is
// charged, in the slot of its counter; nothing where the ask has none that has a name.
//
//	weir:{<rule>:<key>}<override>.<shape>.<layout>.d<debt>
func AppendDebtKey(dst []byte, a *engine.Ask, key []byte) []byte {
	if a.Want.Debt == 0 || a.Want.Overdrawn <= 0 || a.Policy.Limit.Concurrent() {
		return dst
	}
	dst = append(AppendKey(dst, a.Policy, key), ".d"...)
	return strconv.AppendUint(dst, a.Want.Debt, 16)
}

// AppendBlockKey appends the name of the lockout of an ask, see [limit.Lockout]; nothing where its limit does not block.
//
//	weir:{<rule>:<key>}<override>.<shape>.<layout>.b
func AppendBlockKey(dst []byte, a *engine.Ask, key []byte) []byte {
	if !a.Policy.Limit.Blocks() {
		return dst
	}
	return append(AppendKey(dst, a.Policy, key), ".b"...)
}

func appendEscaped(dst []byte, c byte, also bool) []byte {
	if c == '%' || c == '}' || also {
		return append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return append(dst, c)
}
