package live

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Notes are what all replicas of a component share: each note until it is replaced or its time is over. Nothing depends on
// them: a note may be lost. It is safe for concurrent use.
type Notes interface {
	// Put puts notes up, in the place of those of the same names. It keeps neither the slice nor the texts.
	Put(ctx context.Context, notes []Note) error
	// All are the notes whose time is not over, in any order, and the time by the clock of the notes.
	All(ctx context.Context) (notes []Note, now int64, err error)
}

// Note is one of the [Notes].
type Note struct {
	ID   string // 1 to 128 bytes
	Text []byte
	For  time.Duration // for how long it is put up, whole milliseconds, 1 ms to [LongestNote]
	// At and Until are when it was put up, and until when that is, in milliseconds by the clock of the notes. It
	// sets them.
	At, Until int64
}

// LongestNote is the longest time of a note: those of the history have it.
const LongestNote = 30 * time.Hour

// noteTime is the time of a note of a report.
const noteTime = time.Minute

// Left is for how long a note stays.
func (n *Note) Left(now int64) time.Duration { return time.Duration(n.Until-now) * time.Millisecond }

// Memory has the notes of this process. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	notes map[string]Note
}

var _ Notes = (*Memory)(nil)

// Put puts notes up.
func (m *Memory) Put(ctx context.Context, notes []Note) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notes == nil {
		m.notes = map[string]Note{}
	}
	now := time.Now().UnixMilli()
	for _, n := range notes {
		n.At, n.Until, n.Text = now, now+n.For.Milliseconds(), slices.Clone(n.Text)
		m.notes[n.ID] = n
	}
	return nil
}

// All are the notes whose time is not over; the others are forgotten, and those that lie ahead: the clock was set back.
func (m *Memory) All(ctx context.Context) (notes []Note, now int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now = time.Now().UnixMilli()
	for id, n := range m.notes {
		if n.Until <= now || n.At > now {
			delete(m.notes, id)
			continue
		}
		notes = append(notes, n)
	}
	return notes, now, nil
}
