package versions

import (
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/consul"
)

// keptNotes is how many entries of the audit the store keeps, and some more until the next are deleted.
const keptNotes = 1000

func (s *Store) auditKey(id string) string { return s.prefix + "audit/" + id }

// Note keeps an entry of the audit. Entries are in the order of their ids.
func (s *Store) Note(ctx context.Context, id string, entry []byte) error {
	if err := s.kv.Put(ctx, s.auditKey(id), entry); err != nil {
		return err
	}
	keys, err := s.kv.Keys(ctx, s.auditKey(""))
	if err != nil || len(keys) < keptNotes+consul.MaxChanges {
		return err
	}
	for some := range slices.Chunk(keys[:len(keys)-keptNotes], consul.MaxChanges) {
		if _, err := s.kv.Commit(ctx, consul.Change{Delete: some}); err != nil { // another process may have deleted them
			return err
		}
	}
	return nil
}

// Notes returns at most so many entries of the audit before an id, the newest first; an empty id: the newest ones.
func (s *Store) Notes(ctx context.Context, before string, most int) (found [][]byte, err error) {
	pairs, err := s.kv.List(ctx, s.auditKey(""))
	for _, p := range slices.Backward(pairs) {
		if (before == "" || p.Key < s.auditKey(before)) && len(found) < most {
			found = append(found, p.Value)
		}
	}
	return found, err
}
