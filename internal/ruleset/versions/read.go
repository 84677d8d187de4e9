package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/consul"
)

// ErrNone is the error for a store without a version, and for a version that is not kept.
var ErrNone = errors.New("there is no such version")

// Current returns the version in force; a zero one if the store has none.
func (s *Store) Current(ctx context.Context) (Version, error) {
	v, _, err := s.manifest(ctx)
	return v, err
}

// manifest also returns the pair, whose index a swap needs.
func (s *Store) manifest(ctx context.Context) (Version, consul.Pair, error) {
	p, err := s.kv.Get(ctx, s.manifestKey())
	if err != nil || p.Index == 0 {
		return Version{}, p, err
	}
	v, err := ParseVersion(p.Key, p.Value)
	return v, p, err
}

// newest is the version in force or, where somebody has deleted or damaged the manifest, the
// newest that is kept, so that a new one can follow it.
func (s *Store) newest(ctx context.Context) (Version, consul.Pair, error) {
	v, p, err := s.manifest(ctx)
	if !v.Zero() || err != nil && !errors.As(err, new(*DamagedError)) {
		return v, p, err
	}
	versions, err := s.History(ctx)
	switch {
	case err != nil && !errors.As(err, new(*DamagedError)):
		return Version{}, p, err
	case len(versions) == 0: // or none can be read: the clock orders the next one
		return Version{}, p, nil
	}
	return versions[0], p, nil
}

// History returns the versions that are kept, the newest first. With a [DamagedError], which
// names one that cannot be read, it returns the others.
func (s *Store) History(ctx context.Context) ([]Version, error) {
	pairs, err := s.kv.List(ctx, s.prefix+"versions/")
	if err != nil {
		return nil, err
	}
	var versions []Version
	for _, p := range pairs {
		v, wrong := ParseVersion(p.Key, p.Value)
		if wrong != nil {
			err = wrong
			continue
		}
		versions = append(versions, v)
	}
	slices.Reverse(versions)
	return versions, err
}

// Version returns a version that is kept, or an error that is ErrNone.
func (s *Store) Version(ctx context.Context, revision uint64) (Version, error) {
	p, err := s.kv.Get(ctx, s.versionKey(revision))
	switch {
	case err != nil:
		return Version{}, err
	case p.Index == 0:
		return Version{}, fmt.Errorf("revision %d: %w; the last %d are kept: look at the history", revision, ErrNone, kept)
	}
	return ParseVersion(p.Key, p.Value)
}

// Earlier returns a version that s keeps; revision 0: the one before that which brought the document of
// current. Amendments do not count: who goes back wants other rules.
func Earlier(ctx context.Context, s interface {
	Version(ctx context.Context, revision uint64) (Version, error)
	History(ctx context.Context) ([]Version, error)
}, revision uint64, current Version,
) (Version, error) {
	if revision != 0 {
		return s.Version(ctx, revision)
	}
	history, damaged := s.History(ctx)
	for _, v := range history {
		if v.Revision >= current.Revision {
			continue
		}
		if current.Amends == "" {
			return v, nil
		}
		current = v
	}
	return Version{}, cmp.Or(damaged, fmt.Errorf("no version is before the one in force: %w", ErrNone))
}

// Document reads and checks the document of a version. The error is a [DamagedError] if
// the store answers, and the document is not there as a whole.
func (s *Store) Document(ctx context.Context, v Version) ([]byte, error) {
	return s.read(ctx, &v, &v.Text, "document")
}

// Content is Document with the amendments.
func (s *Store) Content(ctx context.Context, v Version) (c Content, err error) {
	if c.Document, err = s.Document(ctx, v); err == nil {
		c.Amendments, err = s.amendments(ctx, v)
	}
	return c, err
}

// amendments are those of a version; nil: there are none.
func (s *Store) amendments(ctx context.Context, v Version) ([]byte, error) {
	if v.Amendments == nil {
		return nil, nil
	}
	return s.read(ctx, &v, v.Amendments, "list of overrides and candidates")
}

// read reads a text of a version; what is it in errors.
func (s *Store) read(ctx context.Context, v *Version, t *Text, what string) ([]byte, error) {
	packed, err := s.readChunks(ctx, v, t)
	if err != nil {
		return nil, err
	}
	text, err := t.unpack(packed)
	if err != nil {
		return nil, &DamagedError{fmt.Sprintf("revision %d: its %s is damaged: %v", v.Revision, what, err)}
	}
	return text, nil
}

// readChunks reads the chunks of a text, one after the other.
func (s *Store) readChunks(ctx context.Context, v *Version, t *Text) (packed []byte, err error) {
	for _, want := range t.Chunks {
		p, err := s.kv.Get(ctx, s.chunkKey(want))
		switch {
		case err != nil:
			return nil, err
		case p.Index == 0:
			return nil, &DamagedError{fmt.Sprintf("revision %d: its chunk %s is missing", v.Revision, p.Key)}
		case sum(p.Value) != want:
			return nil, &DamagedError{fmt.Sprintf("revision %d: its chunk %s has been changed", v.Revision, p.Key)}
		case len(p.Value) > chunkSize:
			return nil, &DamagedError{fmt.Sprintf("revision %d: its chunk %s has %d bytes, at most %d", v.Revision, p.Key, len(p.Value), chunkSize)}
		}
		packed = append(packed, p.Value...)
	}
	return packed, nil
}

// DamagedError names what a person or another program has changed in the store.
type DamagedError struct{ reason string }

func (e *DamagedError) Error() string {
	return e.reason + "; apply the rules again, or roll back to another version"
}
