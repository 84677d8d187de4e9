package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/consul"
)

// kept is how many versions the store keeps of those that change the document, and as many that change amendments:
// many overrides leave the rules that one may go back to.
const kept = 100

// Clean deletes the versions before the last 100 of each kind, and the chunks that no version has. It
// stops if another writer is at work: that one deletes them. Nothing depends on it.
func (s *Store) Clean(ctx context.Context) error {
	if err := s.clean(ctx); err != nil {
		return fmt.Errorf("the rules are in force, but old versions could not be deleted: %w", err)
	}
	return nil
}

func (s *Store) clean(ctx context.Context) error {
	current, manifest, err := s.manifest(ctx)
	if err != nil || manifest.Index == 0 {
		return err
	}
	versions, err := s.History(ctx)
	if err != nil && !errors.As(err, new(*DamagedError)) { // nobody can use what is damaged
		return err
	}
	var old []string
	used, have := map[string]bool{}, map[bool]int{} // versions by whether they amend
	for i, v := range append([]Version{current}, versions...) {
		if i > 0 {
			have[v.Amends != ""]++
		}
		if have[v.Amends != ""] > kept {
			old = append(old, s.versionKey(v.Revision))
			continue
		}
		for _, chunk := range v.chunks() {
			used[s.chunkKey(chunk)] = true
		}
	}
	chunks, err := s.kv.Keys(ctx, s.chunkKey(""))
	if err != nil {
		return err
	}
	old = append(old, slices.DeleteFunc(chunks, func(key string) bool { return used[key] })...)
	for some := range slices.Chunk(old, consul.MaxChanges-1) {
		done, err := s.kv.Commit(ctx, consul.Change{Unchanged: []consul.Pair{manifest}, Delete: some})
		if err != nil || !done {
			return err
		}
	}
	return nil
}
