package rule

import (
	"bytes"
	"strings"
)

// Spelling is the set of differences between paths that a match ignores. Services differ
// in which paths they treat as the same, so each rule has its own: a client can get around
// a limit that counts one spelling only. The zero value ignores none.
type Spelling uint8

// The differences.
const (
	IgnoreCase           Spelling = 1 << iota // letters of paths and methods: /Login is /login
	IgnoreTrailingSlash                       // /login/ is /login
	IgnorePathParameters                      // /login;v=1 is /login

	spellings = 1 << iota // how many combinations there are
)

// append appends the one form of all paths that are the same under s: in lower case, with a
// slash at the end, without parameters.
func (s Spelling) append(dst []byte, path string) []byte {
	if s&IgnorePathParameters != 0 && path != "" && path[0] == '/' {
		dst = appendSegments(dst, path)
	} else {
		dst = append(dst, path...)
	}
	if s&IgnoreCase != 0 {
		lower(dst)
	}
	if s&IgnoreTrailingSlash != 0 {
		for len(dst) > 0 && dst[len(dst)-1] == '/' {
			dst = dst[:len(dst)-1]
		}
		dst = append(dst, '/')
	}
	return dst
}

// appendSegments appends a path without the parameters of its segments. That makes
// "..;x" a "..", which Envoy did not see when it resolved the others.
func appendSegments(dst []byte, path string) []byte {
	slash := false
	for rest, more := path[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		segment, _, _ = strings.Cut(segment, ";")
		switch slash = segment == "" || segment == "." || segment == ".."; {
		case !slash:
			dst = append(append(dst, '/'), segment...)
		case segment == "..":
			dst = dst[:max(0, bytes.LastIndexByte(dst, '/'))]
		}
	}
	if slash {
		dst = append(dst, '/')
	}
	return dst
}

// lower makes the letters of ASCII lower case.
func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}

// spelled returns the path of the request in the form of s; each form is made once.
func (q *view) spelled(s Spelling) []byte {
	if q.m.made>>s&1 == 0 {
		q.m.made |= 1 << s
		q.m.spelled[s] = s.append(q.m.spelled[s][:0], q.path)
	}
	return q.m.spelled[s]
}

// counted returns the path of the request as keys have it: paths that are the same under s
// share a counter.
func (q *view) counted(s Spelling) []byte {
	return s.key(q.spelled(s))
}

// key returns a path in the form of s as keys have it, without the slash at the end.
func (s Spelling) key(path []byte) []byte {
	if n := len(path) - 1; s&IgnoreTrailingSlash != 0 && n > 0 {
		return path[:n]
	}
	return path
}

// segment is one segment of a template: text, or a placeholder for anything that is not empty.
type segment struct {
	text string
	any  bool
}

// segments splits a template, which begins with '/'.
func segments(template string) (out []segment) {
	for _, s := range strings.Split(template[1:], "/") {
		out = append(out, segment{s, IsPlaceholder(s)})
	}
	return out
}

// IsPlaceholder reports whether a segment of a template is {name}.
func IsPlaceholder(s string) bool {
	if len(s) < 3 || s[0] != '{' || s[len(s)-1] != '}' {
		return false
	}
	for _, r := range s[1 : len(s)-1] {
		if !IsNameRune(r) {
			return false
		}
	}
	return true
}

// follows reports whether a path has just these segments.
func follows[T string | []byte](path T, template []segment) bool {
	at := 0
	for i := range template {
		if at >= len(path) || path[at] != '/' {
			return false
		}
		start := at + 1
		for at++; at < len(path) && path[at] != '/'; at++ {
		}
		if t := &template[i]; t.any && at == start || !t.any && string(path[start:at]) != t.text {
			return false
		}
	}
	return at == len(path)
}

// template is a template of a rule's paths, one of whose placeholders is part of the key.
type template struct {
	segments []segment
	at       int // which of them, from 1
}

// templates returns the paths of a match, which are templates with a placeholder of this name.
func templates(m *Match, name string) (out []template) {
	for _, p := range m.Paths {
		for i, s := range segments(p.Arg) {
			if s.text == "{"+name+"}" {
				out = append(out, template{p.ready(m.Ignore&IgnoreCase != 0).template, i + 1})
			}
		}
	}
	return out
}

// segment returns what stands in the path for the placeholder of the first template that the path
// follows, in the form of the rule's spelling.
func (q *view) segment(templates []template) []byte {
	path := q.spelled(q.spelling)
	for _, path := range [...][]byte{path, q.spelling.key(path)} {
		for i := range templates {
			if follows(path, templates[i].segments) {
				return nth(path, templates[i].at)
			}
		}
	}
	return nil
}

// nth returns the n-th segment of a path, which has so many.
func nth(path []byte, n int) []byte {
	for ; n > 0; n-- {
		path = path[bytes.IndexByte(path, '/')+1:]
	}
	if end := bytes.IndexByte(path, '/'); end >= 0 {
		path = path[:end]
	}
	return path
}
