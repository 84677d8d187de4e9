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

// By is who makes a change.
type By struct {
	When     time.Time
	Who, Why string
}

// Edit is one change of a document. before is the entry that is no more, for people, and after what the change does, such as
// "override of login acme: 50/1m until ...".
type Edit func(d *Document, by By) (before, after string, err error)

// Set adds an entry, in the place of one with the same rule and key.
func Set(kind Kind, a Amendment) Edit {
	return func(d *Document, by By) (before, after string, err error) {
		e := Entry{Amendment: a, When: by.When, Who: cut(by.Who), fresh: true}
		e.Why = cut(by.Why)
		if err := e.check(kind); err != nil {
			return "", "", err
		}
		list := d.List(kind)
		if i := find(*list, &a); i >= 0 {
			before, (*list)[i] = kind.text(&(*list)[i]), e
		} else {
			*list = append(*list, e)
		}
		return before, kind.text(&e), nil
	}
}

// Remove removes the entry with the rule and the key, or hash, of another one.
func Remove(kind Kind, a Amendment) Edit {
	return func(d *Document, _ By) (before, after string, err error) {
		list := d.List(kind)
		i := find(*list, &a)
		if i < 0 {
			return "", "", fmt.Errorf("%s: %w", kind.of(&a), ErrNone)
		}
		before = kind.text(&(*list)[i])
		*list = slices.Delete(*list, i, i+1)
		return before, kind.of(&a) + " removed", nil
	}
}

// ErrNone is the error of removing what is not there.
var ErrNone = errors.New("there is none, or it has ended, or it is in the rules file, where it is changed")

func find(list []Entry, a *Amendment) int {
	return slices.IndexFunc(list, func(e Entry) bool { return e.Rule == a.Rule && e.Hash == a.Hash && slices.Equal(e.Key, a.Key) })
}

// Change makes an edit of the document beside a rules file. The error is that of the edit, of the entry if it does not fit
// the rules, or of another one that fits no longer; the document is of no use then.
func (d *Document) Change(file *rulefile.Document, edit Edit, by By) (before, after string, err error) {
	d.Prune(by.When)
	older := &Document{slices.Clone(d.Overrides), slices.Clone(d.Candidates)}
	if before, after, err = edit(d, by); err != nil {
		return "", "", err
	}
	if Merge(file, d); len(d.Problems()) == 0 {
		return before, after, nil
	}
	Merge(file, older)
	for _, problem := range d.Problems() {
		if !slices.Contains(older.Problems(), problem) {
			return "", "", errors.New(problem)
		}
	}
	return before, after, nil
}

// check checks what does not depend on the rules. Whether it fits them, [Merge] finds out.
func (e *Entry) check(kind Kind) error {
	limit, compact := &e.Limit, bytes.Buffer{}
	if e.Limits != nil {
		limit = &e.Limits
	}
	e.Until = e.Until.UTC().Truncate(time.Second)
	switch {
	case e.Rule == "":
		return errors.New("the rule is missing; name one")
	case kind == Override && (len(e.Key) == 0) == (e.Hash == ""):
		return errors.New("key, or hash for a rule with hash: true, is missing; write one of them")
	case kind == Candidate && (len(e.Key) > 0 || e.Hash+e.Name != "" || e.Limits != nil):
		return errors.New("key, hash, name and limits are for overrides; leave them out")
	case (e.Limit == nil) == (e.Limits == nil):
		return errors.New("limit, or limits for a rule with limits, is missing; write one of them")
	case len(*limit) > maxLimit:
		return fmt.Errorf("the limit has %d bytes, at most %d", len(*limit), maxLimit)
	case json.Compact(&compact, *limit) != nil:
		return errors.New(`the limit is missing, or is no JSON; write one such as "50/1m"`)
	case !e.Until.After(e.When):
		return errors.New("until is missing, or is over; write when it ends: what stays belongs into the rules file")
	case e.Until.After(e.When.Add(mostAhead)):
		return errors.New("until is more than 30 days ahead; end it earlier, or write it into the rules file, where all see what stays")
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
