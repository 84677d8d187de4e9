package rule

// What tests see of the inside.

// Append is the canonical form of a path.
func (s Spelling) Append(dst []byte, path string) []byte { return s.append(dst, path) }

// Holds reports whether the match of the rule i holds, without the index.
func (s *Set) Holds(i int, q *Request) bool {
	return s.evaluators[i].match.holds(&view{Request: q, m: &Matches{}, path: q.path(), host: hostName(q.Host)})
}

// WholeKey is the key of the rule i before it is shortened.
func (s *Set) WholeKey(i int, q *Request) []byte {
	key, _ := new(Matches).appendKey(nil, s.evaluators[i].key, &view{Request: q, path: q.path()})
	return key
}

// Lifts reports whether the rule by is exempt and lifts the rule i where it holds.
func (s *Set) Lifts(by, i int) bool {
	lifts := s.evaluators[by].lifts
	return lifts != nil && lifts[i/64]>>(i%64)&1 != 0
}
