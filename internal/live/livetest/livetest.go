// Package livetest is the conformance suite of every [live.Notes].
package livetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/live"
)

// Run runs every case on stores that two callers have of the same notes. empty makes them without any.
func Run(t *testing.T, empty func(testing.TB) [2]live.Notes) {
	for name, one := range map[string]func(*testing.T, [2]live.Notes){
		"Replace": replace, "Ends": ends, "Large": large, "Many": many, "Late": late, "Hammer": hammer,
	} {
		t.Run(name, func(t *testing.T) { one(t, empty(t)) })
	}
}

func put(t testing.TB, b live.Notes, notes ...live.Note) {
	t.Helper()
	if err := b.Put(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
}

func all(t testing.TB, b live.Notes) (byID map[string]live.Note, now int64) {
	t.Helper()
	notes, now, err := b.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID = map[string]live.Note{}
	for _, n := range notes {
		byID[n.ID] = n
	}
	return byID, now
}

// replace is that all callers see the newest note of each name, with its times.
func replace(t *testing.T, b [2]live.Notes) {
	if notes, _ := all(t, b[0]); len(notes) != 0 {
		t.Errorf("an empty store has %v", notes)
	}
	put(t, b[0])
	id, text := "p\x00\xff 1", []byte("7 8 \x00\xffold")
	put(t, b[0], live.Note{ID: id, Text: text, For: time.Minute}, live.Note{ID: "other", For: 50 * time.Second})
	copy(text, "changed")
	first, now := all(t, b[1])
	n, other := first[id], first["other"]
	if len(first) != 2 || string(n.Text) != "7 8 \x00\xffold" || n.Until-n.At != 60_000 || now < n.At || now > n.At+10_000 {
		t.Errorf("%+v at %d", first, now)
	}
	if len(other.Text) != 0 || other.Until-other.At != 50_000 || other.Left(now) > 50*time.Second {
		t.Errorf("%+v", other)
	}
	put(t, b[1], live.Note{ID: id, Text: []byte("new"), For: 20 * time.Second})
	second, _ := all(t, b[0])
	if n := second[id]; len(second) != 2 || string(n.Text) != "new" || n.At < first[id].At || n.Until-n.At != 20_000 {
		t.Errorf("%+v", second)
	}
	if at := time.UnixMilli(now); time.Since(at).Abs() > time.Minute {
		t.Errorf("the clock shows %v", at)
	}
}

// ends is that a note is gone when its time is over, and its neighbour is not.
func ends(t *testing.T, b [2]live.Notes) {
	put(t, b[0], live.Note{ID: "short", Text: []byte("a"), For: 20 * time.Millisecond}, live.Note{ID: "long", Text: []byte("b"), For: time.Minute})
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		notes, now := all(t, b[1])
		if string(notes["long"].Text) != "b" {
			t.Fatalf("%v", notes)
		}
		n, ok := notes["short"]
		if !ok {
			return
		}
		if n.Left(now) <= 0 || time.Since(began) > 20*time.Second {
			t.Fatalf("%+v at %d", n, now)
		}
	}
}

// large is that a note of the largest report arrives whole.
func large(t *testing.T, b [2]live.Notes) {
	text := bytes.Repeat([]byte("0123456789\r\n\x00\xff"), (256<<10)/14)
	put(t, b[0], live.Note{ID: "large", Text: text, For: time.Minute})
	if notes, _ := all(t, b[1]); !bytes.Equal(notes["large"].Text, text) {
		t.Errorf("%d bytes of %d", len(notes["large"].Text), len(text))
	}
}

// many is that all of very many notes are there.
func many(t *testing.T, b [2]live.Notes) {
	const count = 3000
	var notes []live.Note
	for i := range count {
		notes = append(notes, live.Note{ID: fmt.Sprint("note ", i), Text: bytes.Repeat([]byte{byte(i)}, 100), For: time.Minute})
	}
	put(t, b[0], notes...)
	found, _ := all(t, b[1])
	for i, n := range notes {
		if !bytes.Equal(found[n.ID].Text, n.Text) {
			t.Fatalf("note %d: %q; %d of %d", i, found[n.ID].Text, len(found), count)
		}
	}
}

// late is that nothing is waited for when the caller's time is over.
func late(t *testing.T, b [2]live.Notes) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b[0].Put(ended, []live.Note{{ID: "a", For: time.Second}}); err == nil {
		t.Error("put after the caller's time was over")
	}
	if _, _, err := b[0].All(ended); err == nil {
		t.Error("read after the caller's time was over")
	}
}

// hammer is that many callers at once neither lose notes of others nor mix them.
func hammer(t *testing.T, b [2]live.Notes) {
	const callers, each = 8, 20
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			for k := range each {
				put(t, b[i%2], live.Note{ID: fmt.Sprint(i), Text: fmt.Append(nil, i, " ", k), For: time.Minute})
				if notes, _ := all(t, b[(i+k)%2]); string(notes[fmt.Sprint(i)].Text) != fmt.Sprint(i, " ", k) {
					t.Errorf("%d: %q after %d", i, notes[fmt.Sprint(i)].Text, k)
					return
				}
			}
		})
	}
	calling.Wait()
	if notes, _ := all(t, b[0]); len(notes) != callers {
		t.Errorf("%d notes of %d callers", len(notes), callers)
	}
}
