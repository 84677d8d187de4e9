package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// tries is how often the chunks are written again that another writer has deleted between
// two steps of this one.
const tries = 5

// lostError is that of a writer whose version is not in force because of another's.
type lostError struct{ Winner Version }

func (e *lostError) Error() string {
	w := &e.Winner
	return fmt.Sprintf("nothing was changed: %s applied revision %d meanwhile, at %s (%s); look at `weir history`, and apply again what is still wanted",
		w.Who, w.Revision, w.When.Format(time.RFC3339), w.Why)
}

// Apply puts a document in force as a new version, which it returns. The document is of
// [Parse]. A lostError and a [consul.RefusedError] have changed nothing. Another
// error states whether the document may be in force.
func (s *Store) Apply(ctx context.Context, d *rulefile.Document, c Change) (Version, error) {
	return s.apply(ctx, d, c, 0)
}

// Rollback puts the document of an earlier version in force again, as a new version;
// revision 0: that of the version before the one in force.
func (s *Store) Rollback(ctx context.Context, revision uint64, c Change) (Version, error) {
	current, err := s.Current(ctx)
	if err != nil && revision == 0 || err != nil && !errors.As(err, new(*DamagedError)) {
		return Version{}, err
	}
	v, err := s.Earlier(ctx, revision, current)
	if err != nil {
		return Version{}, err
	}
	if revision == 0 {
		c.On = current.Revision // the version before another one would be another one
	}
	text, err := s.Document(ctx, v)
	if err != nil {
		return Version{}, err
	}
	d, err := Parse(fmt.Sprintf("revision %d", v.Revision), text)
	if err != nil {
		return Version{}, err
	}
	return s.apply(ctx, d, c, v.Revision)
}

func (s *Store) apply(ctx context.Context, d *rulefile.Document, c Change, rollbackTo uint64) (Version, error) {
	if err := c.check(); err != nil {
		return Version{}, err
	}
	before, pair, err := s.newest(ctx)
	switch {
	case err != nil:
		return Version{}, err
	case c.On != 0 && c.On != before.Revision:
		return Version{}, &lostError{before}
	}
	followers, _ := s.followers(ctx) // whether some are missing, InForce reports
	now := time.Now().UTC().Truncate(time.Microsecond)
	v := Version{
		Revision: next(now, before, followers),
		When:     now, Who: c.Who, Why: c.Why, RollbackTo: rollbackTo,
		Format: format, Size: len(d.Text), SHA256: sum(d.Text),
	}
	for range tries {
		if err := s.putChunks(ctx, &v, d.Text); err != nil {
			return Version{}, err
		}
		done, err := s.swap(ctx, v, pair)
		if done || err != nil {
			return v, err
		}
	}
	return Version{}, errors.New("nothing was changed: Consul loses chunks as soon as they are written")
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
func (s *Store) Mirror(ctx context.Context, v Version, document []byte) error {
	there, pair, err := s.manifest(ctx)
	switch {
	case err != nil && !errors.As(err, new(*DamagedError)):
		return err
	case err == nil && there.Revision >= v.Revision && !Ahead(there.Revision, time.Now()):
		return nil
	}
	if err := s.putChunks(ctx, &v, document); err != nil {
		return err
	}
	done, err := s.swap(ctx, v, pair)
	switch {
	case errors.As(err, new(*lostError)):
		return nil
	case err != nil:
		return err
	case !done:
		return errors.New("a chunk was deleted meanwhile")
	}
	return s.Clean(ctx)
}

// putChunks writes the chunks of a version's document that the store lacks, or has with other
// content. The version names them from now on.
func (s *Store) putChunks(ctx context.Context, v *Version, document []byte) error {
	chunks, err := v.pack(document)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	for i, chunk := range chunks {
		key := s.chunkKey(v.Chunks[i])
		there, err := s.kv.Get(ctx, key)
		if err == nil && (there.Index == 0 || !bytes.Equal(there.Value, chunk)) {
			err = s.kv.Put(ctx, key, chunk)
		}
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	return nil
}

// swap puts a version in force in the place of what the manifest was. It returns false if a
// chunk is missing.
func (s *Store) swap(ctx context.Context, v Version, before consul.Pair) (bool, error) {
	text := v.Encode()
	chunks := slices.Sorted(slices.Values(v.Chunks))
	change := consul.Change{
		Unchanged: []consul.Pair{before},
		Set:       []consul.Pair{{Key: s.ManifestKey(), Value: text}, {Key: s.versionKey(v.Revision), Value: text}},
	}
	for _, chunk := range slices.Compact(chunks) {
		change.Existing = append(change.Existing, s.chunkKey(chunk))
	}
	done, err := s.kv.Commit(ctx, change)
	var refused *consul.RefusedError
	switch {
	case errors.As(err, &refused):
		return false, fmt.Errorf("nothing was changed: %w", err)
	case done:
		return true, nil
	}
	// The answer may have been lost, and not the change.
	now, pair, readErr := s.manifest(ctx)
	switch {
	case readErr != nil && err != nil:
		return false, fmt.Errorf("it is unknown whether revision %d is in force, look at `weir history`: %w", v.Revision, err)
	case readErr != nil:
		return false, fmt.Errorf("nothing was changed: %w", readErr)
	case bytes.Equal(pair.Value, text):
		return true, nil
	case pair.Index != before.Index:
		return false, &lostError{now}
	case err != nil:
		return false, fmt.Errorf("nothing was changed: %w", err)
	}
	return false, nil
}
