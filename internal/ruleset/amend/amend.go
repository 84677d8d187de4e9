// Package amend has temporary overrides by key and candidates, each with an end. They are a document of their own beside the
// rules file, and the reader merges both.
//
//	amend.go  the document
//	edit.go   changes of it, and their bounds
//	merge.go  the merge with a rules file
package amend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxEntries bounds the overrides and candidates of a document, all together.
	maxEntries = 1000
	// MaxBytes bounds a document, in bytes: its gzip is one value of Consul, whatever it has.
	MaxBytes = 240 << 10
)

// Document has what is changed. The zero one changes nothing.
type Document struct {
	Entries []Entry `json:"entries"`
}

// Kind is what an entry is.
type Kind string

// The kinds.
const (
	Override  Kind = "override"
	Candidate Kind = "candidate"
)

// Amendment is what people ask for. An override gives a key another limit than the rules file does, until it ends. A
// candidate, which has no key, hash, name and limits, is a limit that is counted beside that of its rule and rejects nothing.
type Amendment struct {
	Rule string   `json:"rule" doc:"Name as it is written in the document."`
	Key  []string `json:"key,omitempty" maxItems:"8" doc:"Of an override: a value for each part of the rule's key, or all of it as one text, as answers have it."`
	Hash string   `json:"hash,omitempty" doc:"Of the key instead, for a rule with hash: true: what weir keys hash prints behind \\h."`
	Name string   `json:"name,omitempty" doc:"Of an override: it is told to clients that are rejected."`
	// Limit and Limits are as in a document, as JSON.
	Limit  json.RawMessage `json:"limit,omitempty" doc:"As in a document: \"50/1m\", or an object. That of an override is at most 100 times that of the rule, or 1,000 if that is 0."`
	Limits json.RawMessage `json:"limits,omitempty" doc:"Of an override: likewise a list instead, for a rule with limits."`
	Until  time.Time       `json:"until" doc:"When it ends, in whole seconds; at most 30 days ahead."`
	Why    string          `json:"why" minLength:"1" maxLength:"2000" doc:"Is kept with the version; the first 200 bytes also with the entry."`
}

// Entry is an amendment that was made.
type Entry struct {
	Kind Kind `json:"kind" enum:"override,candidate"`
	Amendment
	When time.Time `json:"when"`
	Who  string    `json:"who"`
	// Problem is of the last [Merge].
	Problem string `json:"problem,omitempty" doc:"Why it is not in force: it does not fit the document any more."`

	fresh bool // it has to keep the bounds of new ones
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
	if n := len(d.Entries); n > maxEntries {
		return nil, fmt.Errorf("amendments: %d entries, at most %d", n, maxEntries)
	}
	return d, nil
}

// Encode returns the document in one line, nil if it changes nothing. The error states which bound it passes.
func (d *Document) Encode() ([]byte, error) {
	if len(d.Entries) == 0 {
		return nil, nil
	}
	for i := range d.Entries {
		d.Entries[i].Problem = ""
	}
	text, err := json.Marshal(d)
	switch {
	case err != nil:
		return nil, fmt.Errorf("amendments: %w", err)
	case len(d.Entries) > maxEntries || len(text) > MaxBytes:
		return nil, fmt.Errorf("there are %d overrides and candidates with %d bytes, at most %d with %d bytes; remove some, or write them into the rules file",
			len(d.Entries), len(text), maxEntries, MaxBytes)
	}
	return text, nil
}

// Prune removes what has ended.
func (d *Document) Prune(now time.Time) {
	d.Entries = slices.DeleteFunc(d.Entries, func(e Entry) bool { return !now.Before(e.Until) })
}

// Problems are those of the entries that are not in force, a line for each.
func (d *Document) Problems() (all []string) {
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Problem != "" {
			all = append(all, e.what()+": "+e.Problem)
		}
	}
	return all
}

// what names an entry for people, such as "override of login acme".
func (e *Entry) what() string { return string(e.Kind) + " of " + e.On() }

// String is an entry for people.
func (e *Entry) String() string {
	limit := strings.Trim(string(e.Limit)+string(e.Limits), `"`) // one of them is empty
	return fmt.Sprintf("%s: %s until %s", e.what(), limit, e.Until.Format(time.RFC3339))
}

// On is the rule and the key, for people.
func (a *Amendment) On() string {
	return strings.TrimSpace(a.Rule + " " + a.key())
}

// key is the key as one text.
func (a *Amendment) key() string {
	if a.Hash != "" {
		return `\h` + a.Hash
	}
	return strings.Join(a.Key, "|")
}
