package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/live"
)

// notesKey begins the keys of the notes: each is a hash with a field for each note, whose value is when it was put up,
// until when that is, both in milliseconds, and its text.
const notesKey = replicasKey + ":live:"

// postScript puts notes up. ARGV: for how long the longest note is put up, and for each its name, its time and its text.
const postScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV, 3 do
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f %.0f ', now, now + ARGV[i + 1]) .. ARGV[i + 2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])`

// pageScript returns the time in milliseconds, where the next page begins, and a page of notes: for each its name, its two
// times and its text. It drops notes whose time is over, and those that lie ahead: the clock was set back. ARGV: where the
// page begins, and about how many notes it has.
const pageScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local notes = {}
for i = 1, #page[2], 2 do
  local at, ends = string.match(page[2][i + 1], '^(%d+) (%d+) ')
  if not at or tonumber(ends) <= now or tonumber(at) > now then
    redis.call('HDEL', KEYS[1], page[2][i])
  else
    local n, text = #notes, string.sub(page[2][i + 1], #at + #ends + 3)
    notes[n + 1], notes[n + 2], notes[n + 3], notes[n + 4] = page[2][i], tonumber(at), tonumber(ends), text
  end
end
return {now, page[1], notes}`

// postedAtOnce bounds the texts that one script gets, so that no decision waits long for it.
const postedAtOnce = 128 << 10

// liveNotes is a [live.Notes] in this Redis.
type liveNotes struct {
	store   *Store
	key     string
	longest time.Duration // time of a note
	page    int           // notes that one script returns, so that no decision waits long for it
}

// Reports is the notes of what holders showed last, Watches those of what is watched, and History those of what reports said in the
// past, of all replicas on this Redis.
func (s *Store) Reports() live.Notes { return s.liveNotes("reports", time.Minute, 16) }

// Watches is the notes of what is watched; see [Store.Reports].
func (s *Store) Watches() live.Notes { return s.liveNotes("watches", time.Minute, 16) }

// History is the notes of what reports said in the past; see [Store.Reports].
func (s *Store) History() live.Notes { return s.liveNotes("history", live.LongestNote, 1) }

func (s *Store) liveNotes(name string, longest time.Duration, page int) live.Notes {
	return &liveNotes{s, notesKey + name, longest, page}
}

// eval runs a script when no other one for notes does.
func (b *liveNotes) eval(ctx context.Context, source string, args ...any) *redis.Cmd {
	select {
	case b.store.notes <- struct{}{}:
		defer func() { <-b.store.notes }()
		return b.store.eval(ctx, source, b.key, args...)
	case <-ctx.Done():
		reply := redis.NewCmd(ctx)
		reply.SetErr(ctx.Err())
		return reply
	}
}

func (b *liveNotes) Put(ctx context.Context, notes []live.Note) error {
	for len(notes) > 0 {
		args := []any{b.longest.Milliseconds()}
		size := 0
		for len(notes) > 0 && (size == 0 || size+len(notes[0].Text) <= postedAtOnce) && len(args) < 3*256 {
			n := &notes[0]
			args = append(args, n.ID, n.For.Milliseconds(), n.Text)
			size += len(n.Text) + len(n.ID)
			notes = notes[1:]
		}
		if err := b.eval(ctx, postScript, args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

func (b *liveNotes) All(ctx context.Context) (notes []live.Note, now int64, err error) {
	cursor, seen := "0", map[string]bool{} // a page may have notes of one before
	for {
		page, err := b.eval(ctx, pageScript, cursor, b.page).Slice()
		if err != nil {
			return nil, 0, err
		}
		if len(page) != 3 {
			return nil, 0, fmt.Errorf("redis: a page of notes with %d values", len(page))
		}
		now, _ = page[0].(int64)
		cursor, _ = page[1].(string)
		found, _ := page[2].([]any)
		for ; len(found) >= 4; found = found[4:] {
			n := live.Note{}
			n.ID, _ = found[0].(string)
			n.At, _ = found[1].(int64)
			n.Until, _ = found[2].(int64)
			text, _ := found[3].(string)
			if n.Text = []byte(text); !seen[n.ID] {
				seen[n.ID], notes = true, append(notes, n)
			}
		}
		if cursor == "0" {
			return notes, now, nil
		}
	}
}
