// Package amend has what people change in the rules while these are in use: overrides by key and candidates, each with an
// end. They are a document of their own beside the rules file, and its reader merges both.
//
//	amend.go  the document
//	merge.go  the rules of a rules file with it
package amend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	// maxEntries bounds the overrides and candidates of a document, all together.
	maxEntries = 1000
	// MaxBytes bounds a document, in bytes: its gzip is one value of Consul, whatever it has.
	MaxBytes = 240 << 10
	// maxText bounds who and why of an entry, in bytes. The version that set it has the whole text.
	maxText = 200
	// maxLimit bounds the text of a limit, in bytes.
	maxLimit = 1000
)

// Document has what is changed. The zero one changes nothing.
type Document struct {
	Overrides  []Override  `json:"overrides,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Override is an override by key of a rule, as a rules file has it. It counts instead of the rules file's own of this
// key until it ends.
type Override struct {
	Rule string   `json:"rule"`           // as it is written, without @
	Key  []string `json:"key,omitempty"`  // a value for each part of the rule's key
	Hash string   `json:"hash,omitempty"` // of the key instead, for a rule with hash: true
	Name string   `json:"name,omitempty"` // empty: it has none
	// Limit is what a rules file has, as JSON: "50/1m", {"count": 50, "per": "1m"} or "unlimited".
	Limit json.RawMessage `json:"limit,omitempty"`
	// Limits is a list of these instead, one for each limit of a rule with limits.
	Limits json.RawMessage `json:"limits,omitempty"`
	Set
}

// Candidate is a limit that is counted beside that of a rule and refuses nothing.
type Candidate struct {
	Rule  string          `json:"rule"`
	Limit json.RawMessage `json:"limit"` // as that of an Override
	Set
}

// Set is when an entry ends, and who set it. Only Until is for the caller to fill in.
type Set struct {
	Until time.Time `json:"until"` // in whole seconds
	When  time.Time `json:"when"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
}

// Parse reads a document as [Document.Encode] writes it; nil is the zero one.
func Parse(text []byte) (*Document, error) {
	d := new(Document)
	if text == nil {
		return d, nil
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("amendments: %d bytes, at most %d", len(text), MaxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("amendments: %w", err)
	}
	if n := d.Len(); n > maxEntries {
		return nil, fmt.Errorf("amendments: %d entries, at most %d", n, maxEntries)
	}
	return d, nil
}

// Encode returns the document in one line, nil if it changes nothing. The error states which bound it passes.
func (d *Document) Encode() ([]byte, error) {
	if d.Len() == 0 {
		return nil, nil
	}
	text, err := json.Marshal(d)
	switch {
	case err != nil:
		return nil, fmt.Errorf("amendments: %w", err)
	case d.Len() > maxEntries || len(text) > MaxBytes:
		return nil, fmt.Errorf("there are %d overrides and candidates with %d bytes, at most %d with %d bytes; remove some, or write them into the rules file",
			d.Len(), len(text), maxEntries, MaxBytes)
	}
	return text, nil
}

// Len is how many entries there are.
func (d *Document) Len() int { return len(d.Overrides) + len(d.Candidates) }

// Prune removes what has ended.
func (d *Document) Prune(now time.Time) {
	d.Overrides = slices.DeleteFunc(d.Overrides, func(o Override) bool { return !now.Before(o.Until) })
	d.Candidates = slices.DeleteFunc(d.Candidates, func(c Candidate) bool { return !now.Before(c.Until) })
}

// Edit is one change of a document. It returns what people read about it, such as "override of login acme: 50/1m until …".
type Edit func(d *Document, by Set) (string, error)

// SetOverride adds an override, in the place of one with the same rule and key.
func SetOverride(o Override) Edit {
	return func(d *Document, by Set) (string, error) {
		if (len(o.Key) == 0) == (o.Hash == "") {
			return "", errors.New("key, or hash for a rule with hash: true, is missing; write one of them")
		}
		if (o.Limit == nil) == (o.Limits == nil) {
			return "", errors.New("limit, or limits for a rule with limits, is missing; write one of them")
		}
		limit := &o.Limit
		if o.Limits != nil {
			limit = &o.Limits
		}
		if err := check(o.Rule, limit, &o.Set, by); err != nil {
			return "", err
		}
		i := slices.IndexFunc(d.Overrides, func(other Override) bool { return same(&other, o.Rule, o.Key, o.Hash) })
		if i < 0 {
			d.Overrides = append(d.Overrides, o)
		} else {
			d.Overrides[i] = o
		}
		return o.String(), nil
	}
}

// RemoveOverride removes the override of a rule and a key, or its hash.
func RemoveOverride(rule string, key []string, hash string) Edit {
	return func(d *Document, _ Set) (string, error) {
		n := len(d.Overrides)
		d.Overrides = slices.DeleteFunc(d.Overrides, func(o Override) bool { return same(&o, rule, key, hash) })
		on := (&Override{Rule: rule, Key: key, Hash: hash}).On()
		if len(d.Overrides) == n {
			return "", fmt.Errorf("override of %s: %w", on, ErrNone)
		}
		return "override of " + on + " removed", nil
	}
}

// SetCandidate adds a candidate, in the place of one of the same rule.
func SetCandidate(c Candidate) Edit {
	return func(d *Document, by Set) (string, error) {
		if err := check(c.Rule, &c.Limit, &c.Set, by); err != nil {
			return "", err
		}
		d.Candidates = slices.DeleteFunc(d.Candidates, func(other Candidate) bool { return other.Rule == c.Rule })
		d.Candidates = append(d.Candidates, c)
		return c.String(), nil
	}
}

// RemoveCandidate removes the candidate of a rule.
func RemoveCandidate(rule string) Edit {
	return func(d *Document, _ Set) (string, error) {
		n := len(d.Candidates)
		d.Candidates = slices.DeleteFunc(d.Candidates, func(c Candidate) bool { return c.Rule == rule })
		if len(d.Candidates) == n {
			return "", fmt.Errorf("candidate of %s: %w", rule, ErrNone)
		}
		return "candidate of " + rule + " removed", nil
	}
}

// ErrNone is the error of removing what is not there.
var ErrNone = errors.New("there is none, or it has ended, or it is in the rules file, where it is changed")

// On is the rule and the key of an override, for people.
func (o *Override) On() string {
	if o.Hash != "" {
		return o.Rule + " " + o.Hash
	}
	out := o.Rule
	for _, value := range o.Key {
		if strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		out += " " + value
	}
	return out
}

// String is an override for people.
func (o *Override) String() string {
	return fmt.Sprintf("override of %s: %s until %s", o.On(), text(o.Limit)+text(o.Limits), o.Until.Format(time.RFC3339))
}

// String is a candidate for people.
func (c *Candidate) String() string {
	return fmt.Sprintf("candidate of %s: %s until %s", c.Rule, text(c.Limit), c.Until.Format(time.RFC3339))
}

// Texts are all entries for people.
func (d *Document) Texts() (all []string) {
	for i := range d.Overrides {
		all = append(all, d.Overrides[i].String())
	}
	for i := range d.Candidates {
		all = append(all, d.Candidates[i].String())
	}
	return all
}

func same(o *Override, rule string, key []string, hash string) bool {
	return o.Rule == rule && o.Hash == hash && slices.Equal(o.Key, key)
}

// check checks what is the same for all entries, and fills in who set it. Whether it fits the rule, [Merge] finds out.
func check(rule string, limit *json.RawMessage, s *Set, by Set) error {
	var compact bytes.Buffer
	s.Until = s.Until.UTC().Truncate(time.Second)
	s.When, s.Who, s.Why = by.When, cut(by.Who), cut(by.Why)
	switch {
	case rule == "":
		return errors.New("the rule is missing; name one")
	case len(*limit) > maxLimit:
		return fmt.Errorf("the limit has %d bytes, at most %d", len(*limit), maxLimit)
	case json.Compact(&compact, *limit) != nil:
		return errors.New(`the limit is missing, or is no JSON; write one such as "50/1m"`)
	case !s.Until.After(by.When):
		return errors.New("until is missing, or is over; write when it ends: what stays belongs into the rules file")
	}
	*limit = compact.Bytes()
	return nil
}

// cut shortens a text to maxText.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// text is a limit without the quotes of JSON.
func text(limit json.RawMessage) string { return strings.Trim(string(limit), `"`) }
