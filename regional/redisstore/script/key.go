package script

import (
	"strconv"

	"github.com/weirlimit/weir/regional/limiter"
)

// AppendKey appends the name of the counter of a policy and a key:
//
//	weir:{<rule>:<key>}<variant>.<shape>
//
// where variant and shape are in hexadecimal. No two counters share a name: '%' and
// '}', and in the rule ':', are written as % and two digits. So the braces hold exactly
// the rule and the key, and all counters of a rule's variants for one key are in one
// slot of a cluster.
func AppendKey(dst []byte, p *limiter.Policy, key []byte) []byte {
	dst = append(dst, "weir:{"...)
	for i := range len(p.Rule) {
		dst = appendEscaped(dst, p.Rule[i], p.Rule[i] == ':')
	}
	dst = append(dst, ':')
	for _, c := range key {
		dst = appendEscaped(dst, c, false)
	}
	dst = append(dst, '}')
	dst = strconv.AppendUint(dst, uint64(p.Variant), 16)
	dst = append(dst, '.')
	return strconv.AppendUint(dst, p.Limit.Shape(), 16)
}

func appendEscaped(dst []byte, c byte, also bool) []byte {
	if c == '%' || c == '}' || also {
		return append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return append(dst, c)
}
