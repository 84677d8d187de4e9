// Package fields finds one field of many that share a line: query parameters and cookies.
//
// It is part of the Envoy filter, see package rule.
package fields

import "strings"

// AppendQuery appends the decoded values of all parameters of that name, joined by
// ',' as those of a header are. Names are decoded too: the service behind reads
// x%2Did as x-id. found is false if the path has no such parameter.
func AppendQuery(dst []byte, path, name string) (out []byte, found bool) {
	_, query := cut(path, '?')
	query, _ = cut(query, '#')
	for query != "" {
		var pair string
		pair, query = cut(query, '&')
		key, value := cut(pair, '=')
		start := len(dst)
		dst = appendUnescaped(dst, key)
		same := string(dst[start:]) == name
		if dst = dst[:start]; !same {
			continue
		}
		if found {
			dst = append(dst, ',')
		}
		dst, found = appendUnescaped(dst, value), true
	}
	return dst, found
}

// appendUnescaped decodes '+' and %XX. Other text is unchanged.
func appendUnescaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			c = byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// Cookie is a cookie as it is sent, without white space around its name.
type Cookie struct{ Name, Value string }

// AppendCookies appends all cookies of a request. header is all that is sent in cookie headers, joined
// by ';' (RFC 6265, section 5.4). The cookies share its memory.
func AppendCookies(dst []Cookie, header string) []Cookie {
	for header != "" {
		var pair string
		pair, header = cut(header, ';')
		name, value := cut(pair, '=')
		dst = append(dst, Cookie{trim(name), value})
	}
	return dst
}

// AppendCookie appends the values of all cookies of that name, as they are sent, joined by ',' as
// those of a header are: a client that sends two is taken for neither. Names have case. found is false
// if there is no such cookie.
func AppendCookie(dst []byte, cookies []Cookie, name string) (out []byte, found bool) {
	for i := range cookies {
		if cookies[i].Name != name {
			continue
		}
		if found {
			dst = append(dst, ',')
		}
		dst, found = append(dst, trim(cookies[i].Value)...), true
	}
	return dst, found
}

// cut returns what is before and behind the first separator. Inlined, it and trim would make the
// filter larger.
//
//go:noinline
func cut(s string, separator byte) (before, after string) {
	if i := strings.IndexByte(s, separator); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

//go:noinline
func trim(s string) string {
	for s != "" && blank(s[0]) {
		s = s[1:]
	}
	for s != "" && blank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
