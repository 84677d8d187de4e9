package script

import "github.com/weirlimit/weir/regional/limiter"

const hexDigits = "0123456789abcdef"

// AppendKey appends the name of the counter of a policy and a key:
//
//	weir:{<rule>:<key>}<variant><shape>
//
// where variant is in hexadecimal, shape in eight digits of it. No two counters
// share a name: '%' and '}', and in the rule ':', are written as % and two digits.
// So the braces hold exactly the rule and the key, and all counters of a rule's
// variants for one key are in one slot of a cluster.
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
	started := false
	for shift := 28; shift >= 0; shift -= 4 {
		digit := p.Variant >> shift & 15
		if started = started || digit != 0 || shift == 0; started {
			dst = append(dst, hexDigits[digit])
		}
	}
	shape := p.Limit.Shape()
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[shape>>shift&15])
	}
	return dst
}

func appendEscaped(dst []byte, c byte, also bool) []byte {
	if c == '%' || c == '}' || also {
		return append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return append(dst, c)
}
