package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/live"
)

// boardKey begins the keys of the boards: each is a hash with a field for each note, whose value is when it was put up,
// until when that is, both in milliseconds, and its text.
const boardKey = replicasKey + ":live:"

// postScript puts notes up. ARGV: for each its name, its time and its text.
const postScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, #ARGV, 3 do
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f %.0f ', now, now + ARGV[i + 1]) .. ARGV[i + 2])
end
redis.call('PEXPIRE', KEYS[1], 60000)`

// pageScript returns the time in milliseconds, where the next page begins, and a page of names and notes. It drops
// notes whose time is over, and those that lie ahead: the clock was set back. ARGV: where the page begins.
const pageScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 16)
local notes = {}
for i = 1, #page[2], 2 do
  local at, ends = string.match(page[2][i + 1], '^(%d+) (%d+) ')
  if not at or tonumber(ends) <= now or tonumber(at) > now then
    redis.call('HDEL', KEYS[1], page[2][i])
  else
    notes[#notes + 1], notes[#notes + 2] = page[2][i], page[2][i + 1]
  end
end
return {now, page[1], notes}`

const (
	// postedAtOnce bounds the texts that one script gets, so that no decision waits long for it.
	postedAtOnce = 128 << 10
	// mostPages bounds what a reading reads: a hash of other programs may be endless.
	mostPages = 4096
)

// board is a [live.Board] in this Redis.
type board struct {
	store *Store
	key   string
}

// Reports is the board of what holders showed last, and Watches that of what is watched, of all replicas on this Redis.
func (s *Store) Reports() live.Board { return &board{s, boardKey + "reports"} }

// Watches is the board of what is watched; see [Store.Reports].
func (s *Store) Watches() live.Board { return &board{s, boardKey + "watches"} }

// eval runs a script when no other one of a board does.
func (b *board) eval(ctx context.Context, source string, args ...any) *redis.Cmd {
	select {
	case b.store.boards <- struct{}{}:
		defer func() { <-b.store.boards }()
		return b.store.eval(ctx, source, b.key, args...)
	case <-ctx.Done():
		reply := redis.NewCmd(ctx)
		reply.SetErr(ctx.Err())
		return reply
	}
}

func (b *board) Put(ctx context.Context, notes []live.Note) error {
	for len(notes) > 0 {
		var args []any
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

func (b *board) All(ctx context.Context) (notes []live.Note, now int64, err error) {
	cursor, seen := "0", map[string]bool{} // a page may have notes of one before
	for range mostPages {
		page, err := b.eval(ctx, pageScript, cursor).Slice()
		if err != nil {
			return nil, 0, err
		}
		if len(page) != 3 {
			return nil, 0, fmt.Errorf("redis: a page of notes with %d values", len(page))
		}
		now, _ = page[0].(int64)
		cursor, _ = page[1].(string)
		found, _ := page[2].([]any)
		for i := 0; i+1 < len(found); i += 2 {
			id, _ := found[i].(string)
			value, _ := found[i+1].(string)
			if n, ok := noteOf(id, []byte(value)); ok && !seen[id] {
				seen[id], notes = true, append(notes, n)
			}
		}
		if cursor == "0" {
			return notes, now, nil
		}
	}
	return nil, 0, fmt.Errorf("redis: %s has more than %d pages", b.key, mostPages)
}

// noteOf reads the value of a note.
func noteOf(id string, value []byte) (n live.Note, ok bool) {
	at, rest, _ := bytes.Cut(value, []byte(" "))
	ends, text, ok := bytes.Cut(rest, []byte(" "))
	n = live.Note{ID: id, Text: text}
	var errAt, errEnds error
	n.At, errAt = strconv.ParseInt(string(at), 10, 64)
	n.Until, errEnds = strconv.ParseInt(string(ends), 10, 64)
	return n, ok && errAt == nil && errEnds == nil
}
