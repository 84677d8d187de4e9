package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// tries is how often the chunks are written again that another writer has deleted between
// two steps of this one.
const tries = 5

// LostError is that of a writer whose version is not in force because of another's.
type LostError struct{ Winner Version }

func (e *LostError) Error() string {
	w := &e.Winner
	return fmt.Sprintf("nothing was changed: %s applied revision %d meanwhile, at %s (%s); look at the history, and apply again what is still wanted",
		w.Who, w.Revision, w.When.Format(time.RFC3339), w.Why)
}

// Apply puts a document in force as a new version, which it returns. The document is of
// [Parse]. A LostError, a WrongError (of c) and a [consul.RejectedError] have changed nothing. Another
// error states whether the document may be in force.
// The amendments stay, without those that have ended.
func (s *Store) Apply(ctx context.Context, d *rulefile.Document, c Change) (Version, error) {
	return s.apply(ctx, d.Text, c, 0)
}

// Rollback puts the document of an earlier version in force again, as a new version;
// revision 0: that of [Earlier]. The amendments stay as with Apply.
func (s *Store) Rollback(ctx context.Context, revision uint64, c Change) (Version, error) {
	current, err := s.Current(ctx)
	if err != nil && revision == 0 || err != nil && !errors.As(err, new(*DamagedError)) {
		return Version{}, err
	}
	v, err := Earlier(ctx, s, revision, current)
	if err != nil {
		return Version{}, err
	}
	if revision == 0 {
		if c.On != 0 && c.On != current.Revision {
			return Version{}, &LostError{current}
		}
		c.On = current.Revision // the version before another one would be another one
	}
	text, err := s.Document(ctx, v)
	if err != nil {
		return Version{}, err
	}
	if _, err := Parse(fmt.Sprintf("revision %d", v.Revision), text); err != nil {
		return Version{}, err
	}
	return s.apply(ctx, text, c, v.Revision)
}

func (s *Store) apply(ctx context.Context, document []byte, c Change, rollbackTo uint64) (Version, error) {
	before, pair, err := s.begin(ctx, c)
	if err != nil {
		return Version{}, err
	}
	text, err := s.amendments(ctx, before)
	if err != nil && !errors.As(err, new(*DamagedError)) {
		return Version{}, err
	}
	amendments, err := amend.Parse(text)
	if err != nil { // nobody can use them
		amendments = new(amend.Document)
	}
	return s.commit(ctx, Version{Who: c.Who, Why: c.Why, RollbackTo: rollbackTo}, document, amendments, before, pair)
}

// begin returns what a change is made of, and the pair of its manifest.
func (s *Store) begin(ctx context.Context, c Change) (before Version, pair consul.Pair, err error) {
	if err := c.check(); err != nil {
		return Version{}, pair, &WrongError{err}
	}
	before, pair, err = s.newest(ctx)
	if err == nil && (c.On != 0 && c.On != before.Revision || c.First && !before.Zero()) {
		err = &LostError{before}
	}
	return before, pair, err
}

// commit puts a document and amendments in force as a version with the texts of v. It follows another one, whose manifest
// is pair.
func (s *Store) commit(
	ctx context.Context, v Version, document []byte, amendments *amend.Document, before Version, pair consul.Pair,
) (Version, error) {
	followers, _ := s.followers(ctx) // whether some are missing, InForce reports
	v.When = time.Now().UTC().Truncate(time.Microsecond)
	v.Revision = next(v.When, before, followers)
	amendments.Prune(v.When)
	content := Content{Document: document}
	var err error
	if content.Amendments, err = amendments.Encode(); err != nil {
		return Version{}, &WrongError{err}
	}
	for range tries {
		if err := s.put(ctx, &v, content); err != nil {
			return Version{}, err
		}
		done, err := s.swap(ctx, v, pair)
		if done || err != nil {
			return v, err
		}
	}
	return Version{}, errors.New("nothing was changed: the store loses chunks as soon as they are written")
}

// next is the revision of a version that is made now. What is from the future has none before it: otherwise one
// manifest that somebody forged, or one false registration, would be ahead of all versions.
func next(now time.Time, before Version, followers []consul.Registered) uint64 {
	revision := uint64(now.UnixMicro())
	for _, f := range append(followers, consul.Registered{Revision: before.Revision}) {
		if !Ahead(f.Revision, now) {
			revision = max(revision, f.Revision+1)
		}
	}
	return revision
}

// Mirror puts a version of another store in force in this one, unless this has a newer one that is not from the future.
// Several processes may do it at the same time.
func (s *Store) Mirror(ctx context.Context, v Version, content Content) error {
	there, pair, err := s.manifest(ctx)
	switch {
	case err != nil && !errors.As(err, new(*DamagedError)):
		return err
	case err == nil && there.Revision >= v.Revision && !Ahead(there.Revision, time.Now()):
		return nil
	}
	if err := s.put(ctx, &v, content); err != nil {
		return err
	}
	done, err := s.swap(ctx, v, pair)
	switch {
	case errors.As(err, new(*LostError)):
		return nil
	case err != nil:
		return err
	case !done:
		return errors.New("a chunk was deleted meanwhile")
	}
	return s.Clean(ctx)
}

// put writes the chunks of a version that the store lacks, or has with other content. The version names them from now on.
func (s *Store) put(ctx context.Context, v *Version, content Content) (err error) {
	v.Format, v.Amendments = format, nil
	if v.Text, err = s.putText(ctx, content.Document); err == nil && content.Amendments != nil {
		var t Text
		t, err = s.putText(ctx, content.Amendments)
		v.Amendments, v.Format = &t, amended
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

func (s *Store) putText(ctx context.Context, text []byte) (Text, error) {
	t, chunks, err := newText(text)
	for i, chunk := range chunks {
		key := s.chunkKey(t.Chunks[i])
		there, err := s.kv.Get(ctx, key)
		if err == nil && (there.Index == 0 || !bytes.Equal(there.Value, chunk)) {
			err = s.kv.Put(ctx, key, chunk)
		}
		if err != nil {
			return t, err
		}
	}
	return t, err
}

// swap puts a version in force in the place of what the manifest was. It returns false if a
// chunk is missing.
func (s *Store) swap(ctx context.Context, v Version, before consul.Pair) (bool, error) {
	text := v.Encode()
	change := consul.Change{
		Unchanged: []consul.Pair{before},
		Set:       []consul.Pair{{Key: s.manifestKey(), Value: text}, {Key: s.versionKey(v.Revision), Value: text}},
	}
	for _, chunk := range v.chunks() {
		change.Existing = append(change.Existing, s.chunkKey(chunk))
	}
	done, err := s.kv.Commit(ctx, change)
	var rejected *consul.RejectedError
	switch {
	case errors.As(err, &rejected):
		return false, fmt.Errorf("nothing was changed: %w", err)
	case done:
		return true, nil
	}
	// The answer may have been lost, and not the change.
	now, pair, readErr := s.manifest(ctx)
	switch {
	case readErr != nil && err != nil:
		return false, fmt.Errorf("it is unknown whether revision %d is in force, look at the history: %w", v.Revision, err)
	case readErr != nil:
		return false, fmt.Errorf("nothing was changed: %w", readErr)
	case bytes.Equal(pair.Value, text):
		return true, nil
	case pair.Index != before.Index:
		return false, &LostError{now}
	case err != nil:
		return false, fmt.Errorf("nothing was changed: %w", err)
	}
	return false, nil
}
