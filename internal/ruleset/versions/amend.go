package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// WrongError is what is wrong with a change of the amendments, or with its texts. It has changed nothing.
type WrongError struct{ error }

// Unwrap is the reason.
func (e *WrongError) Unwrap() error { return e.error }

// List returns the newest version and its amendments, with what is wrong with them. Those that have ended are not there.
func (s *Store) List(ctx context.Context) (Version, *amend.Document, error) {
	v, err := s.Current(ctx)
	if err != nil || v.Amendments == nil {
		return v, new(amend.Document), err
	}
	file, amendments, err := s.parsed(ctx, v)
	if err == nil {
		amendments.Prune(time.Now())
		amend.Merge(file, amendments)
	}
	return v, amendments, err
}

// parsed reads what a version names.
func (s *Store) parsed(ctx context.Context, v Version) (*rulefile.Document, *amend.Document, error) {
	content, err := s.Content(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	return content.Parse(fmt.Sprintf("revision %d", v.Revision))
}

// Amend puts the document of the version in force with other amendments in force, as a new version, which it returns with
// the entry that is no more. The error is a WrongError with that of edit or of an entry that does not fit, or one as of
// [Store.Apply]. If another version comes in between, the edit is made on that one, unless c.On is set.
func (s *Store) Amend(ctx context.Context, edit amend.Edit, c Change) (v Version, before string, err error) {
	for range tries {
		if v, before, err = s.amend(ctx, edit, c); c.On != 0 || !errors.As(err, new(*LostError)) {
			break
		}
	}
	return v, before, err
}

func (s *Store) amend(ctx context.Context, edit amend.Edit, c Change) (v Version, gone string, err error) {
	before, pair, err := s.begin(ctx, c)
	if err == nil && before.Zero() {
		err = &WrongError{errors.New("there are no rules to amend; apply some")}
	}
	if err != nil {
		return Version{}, "", err
	}
	file, amendments, err := s.parsed(ctx, before)
	if err != nil {
		return Version{}, "", err
	}
	v = Version{Who: c.Who, Why: c.Why}
	edit.When, edit.Who, edit.Why = time.Now().UTC().Truncate(time.Microsecond), c.Who, c.Why
	gone, v.Amends, err = amendments.Change(file, edit)
	if err != nil {
		return Version{}, "", &WrongError{err}
	}
	v.Amends = strings.ToValidUTF8(v.Amends[:min(len(v.Amends), maxWhy)], "")
	v, err = s.commit(ctx, v, file.Text, amendments, before, pair)
	return v, gone, err
}
