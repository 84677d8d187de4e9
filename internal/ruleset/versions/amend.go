package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/amend"
)

// Listed are the amendments of a version, and those of them that are not in force because they do not fit its document.
type Listed struct {
	Version  Version
	Document *amend.Document
	Problems []amend.Problem
}

// WrongError is what is wrong with a change of the amendments, or with its texts. It has changed nothing.
type WrongError struct{ error }

// Unwrap is the reason.
func (e *WrongError) Unwrap() error { return e.error }

// List returns the amendments of the newest version. Those that have ended are not there.
func (s *Store) List(ctx context.Context, now time.Time) (Listed, error) {
	v, err := s.Current(ctx)
	if err != nil || v.Amendments == nil {
		return Listed{Version: v, Document: new(amend.Document)}, err
	}
	content, err := s.Content(ctx, v)
	if err != nil {
		return Listed{}, err
	}
	file, amendments, err := content.Parse(name(v))
	if err != nil {
		return Listed{}, err
	}
	amendments.Prune(now)
	_, problems := amend.Merge(file, amendments)
	return Listed{v, amendments, problems}, nil
}

// Amend puts the document of the version in force with other amendments in force, as a new version, which it returns. The
// error is a WrongError with that of edit or of an entry that does not fit, or one as of [Store.Apply]. If
// another version comes in between, the edit is made on that one, unless c.On is set.
func (s *Store) Amend(ctx context.Context, edit amend.Edit, c Change) (v Version, err error) {
	for range tries {
		if v, err = s.amend(ctx, edit, c); c.On != 0 || !errors.As(err, new(*LostError)) {
			break
		}
	}
	return v, err
}

func (s *Store) amend(ctx context.Context, edit amend.Edit, c Change) (Version, error) {
	before, pair, err := s.begin(ctx, c)
	if err == nil && before.Zero() {
		err = &WrongError{errors.New("there are no rules to amend; apply some")}
	}
	if err != nil {
		return Version{}, err
	}
	content, err := s.Content(ctx, before)
	if err != nil {
		return Version{}, err
	}
	file, amendments, err := content.Parse(name(before))
	if err != nil {
		return Version{}, err
	}
	by := amend.Set{When: time.Now().UTC().Truncate(time.Microsecond), Who: c.Who, Why: c.Why}
	amendments.Prune(by.When)
	v := Version{Who: c.Who, Why: c.Why}
	if v.Amends, err = edit(amendments, by); err != nil {
		return Version{}, &WrongError{err}
	}
	v.Amends = strings.ToValidUTF8(v.Amends[:min(len(v.Amends), maxWhy)], "")
	if err := amendments.Fit(file, by.When); err != nil {
		return Version{}, &WrongError{err}
	}
	return s.commit(ctx, v, content.Document, amendments, before, pair)
}

// name is that of the document of a version, in errors.
func name(v Version) string { return fmt.Sprintf("revision %d", v.Revision) }
