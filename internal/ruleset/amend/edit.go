package amend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// The bounds of a new entry are for all callers. What shall last longer or allow more belongs into the rules file, where it
// is seen whenever the rules are read.
const (
	// mostAhead is how far ahead an entry may end.
	mostAhead = 30 * 24 * time.Hour
	// mostTimes is how many times the count, and burst, of its rule an override may have, and ofNone what counts as that of a
	// rule with 0.
	mostTimes, ofNone = 100, 10
)

const (
	// maxText bounds who and why of an entry, in bytes. The version that set it has the whole text.
	maxText = 200
	// maxLimit bounds the text of a limit, in bytes.
	maxLimit = 1000
)

// Edit is one change of a document: an entry is set, in the place of one with the same kind, rule and key, or hash, or that
// one is removed.
type Edit struct {
	Entry  // who, why and when are those of the change
	Remove bool
}

// ErrNone is the error of removing what is not there.
var ErrNone = errors.New("does not exist, has ended, or is in the rules file; change it there")

// apply makes the edit. before is the entry that is no more, for people, and after what the edit does, such as "override of
// login acme: 50/1m until ...".
func (e Edit) apply(d *Document) (before, after string, err error) {
	if e.Who, e.Why, e.fresh = cut(e.Who), cut(e.Why), true; !e.Remove {
		err = e.check()
	}
	if e.Hash != "" { // as all programs show it
		e.Key, e.Hash = []string{e.key()}, ""
	}
	d.Entries = slices.DeleteFunc(d.Entries, func(o Entry) bool {
		same := o.Kind == e.Kind && o.Rule == e.Rule && o.key() == e.key()
		if same {
			before = o.String()
		}
		return same
	})
	switch {
	case err != nil:
		return "", "", err
	case e.Remove && before == "":
		return "", "", fmt.Errorf("%s: %w", e.what(), ErrNone)
	case e.Remove:
		return before, e.what() + " removed", nil
	}
	d.Entries = append(d.Entries, e.Entry)
	return before, e.String(), nil
}

// Change makes an edit of the document beside a rules file. With an error, that of the edit or of an entry that does not fit,
// the document is of no use.
func (d *Document) Change(file *rulefile.Document, edit Edit) (before, after string, err error) {
	d.Prune(edit.When)
	if before, after, err = edit.apply(d); err != nil || edit.Remove {
		return before, after, err
	}
	Merge(file, d)
	if set := &d.Entries[len(d.Entries)-1]; set.Problem != "" { // it is the last: the others fit without it
		return "", "", errors.New(set.what() + ": " + set.Problem)
	}
	return before, after, nil
}

// check checks what does not depend on the rules. Whether it fits them, [Merge] finds out.
func (e *Entry) check() error {
	limit, compact := &e.Limit, bytes.Buffer{}
	if e.Limits != nil {
		limit = &e.Limits
	}
	e.Until = e.Until.UTC().Truncate(time.Second)
	switch {
	case e.Rule == "":
		return errors.New("the rule is missing; name one")
	case e.Kind == Override && (len(e.Key) == 0) == (e.Hash == ""):
		return errors.New("key, or hash for a rule with hash: true, is missing; write one of them")
	case e.Kind == Candidate && (len(e.Key) > 0 || e.Hash+e.Name != "" || e.Limits != nil):
		return errors.New("key, hash, name and limits are for overrides; leave them out")
	case (e.Limit == nil) == (e.Limits == nil):
		return errors.New("limit, or limits for a rule with limits, is missing; write one of them")
	case len(*limit) > maxLimit:
		return fmt.Errorf("the limit has %d bytes, at most %d", len(*limit), maxLimit)
	case json.Compact(&compact, *limit) != nil:
		return errors.New(`the limit is missing, or is no JSON; write one such as "50/1m"`)
	case !e.Until.After(e.When):
		return errors.New("until is missing or in the past; write a future time, or write a permanent change into the rules file")
	case e.Until.After(e.When.Add(mostAhead)):
		return errors.New("until is more than 30 days ahead; write an earlier time, or write the change into the rules file")
	}
	*limit = compact.Bytes()
	return nil
}

// tooHigh is why an override, the only one by key in a set, may not be set.
func tooHigh(set *rule.Set) error {
	for i := range set.Len() {
		r := set.Rule(i)
		for _, k := range r.Keys {
			own := r.Limits[0].Limit
			for _, n := range [][2]int64{{k.Limit.Count, own.Count}, {k.Limit.Burst, own.Burst}} {
				if most := mostTimes * cmp.Or(n[1], ofNone); k.Unlimited || n[0] > most {
					return fmt.Errorf("more than %d, the most for a key of rule %s: %d times its own, or %d if that is 0; set a lower limit, or write the override into the rules file",
						most, r.Name, mostTimes, mostTimes*ofNone)
				}
			}
		}
	}
	return nil
}

// cut shortens a text to maxText.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
