package reserve

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

const now = start + limit.Day

// Whatever a region states, nothing else changes than what is known of itself: what is withheld of others' for it is never
// more than its configured share, and others can have all of theirs.
func TestLiar(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var s Shares
		for name, st := range map[string]Statement{"eu": {ID: 1, Until: now + Ahead}, "us": {ID: 2, Until: now + Ahead}} {
			s, _, _ = s.Heard(name, st, now, 400)
			s, _ = s.Issued(name, 400, now)
		}
		eu, us := s.Regions["eu"], s.Regions["us"]
		w := Window{Period: limit.Micros(1+r.IntN(100)) * limit.Second, LooksBack: r.IntN(2) == 0, Refills: r.IntN(2) == 0}
		for at := now; at < now+100*limit.Second; at += limit.Micros(r.Int64N(int64(2 * limit.Second))) {
			if next, _, err := s.Heard("liar", lie(r, at), at, 200); err == nil {
				s = next
			}
			s, _ = s.Issued("liar", 200, at)
			liar := s.Regions["liar"]
			if !reflect.DeepEqual(s.Regions["eu"], eu) || !reflect.DeepEqual(s.Regions["us"], us) || s.unassigned("eu") < 400 {
				t.Fatalf("seed %d: others changed: %+v", seed, s)
			}
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			begin := w.Begin(at + limit.Micros(r.Int64N(int64(limit.Minute))))
			others := Shares{Regions: map[string]Region{"eu": eu, "us": us}}.Withheld(w, begin)
			if got := s.Withheld(w, begin); got > others+200 {
				t.Fatalf("seed %d: %d are withheld for a share of 200: %+v", seed, got-others, liar)
			}
			if p := s.Reply("liar", liar.ID, at); p.Share.Part > 200 {
				t.Fatalf("seed %d: share %+v", seed, p.Share)
			}
		}
	}
}

// lie is a statement of any kind.
func lie(r *rand.Rand, at limit.Micros) Statement {
	s := Statement{ID: r.Uint64N(4), Part: PerMille(r.IntN(1200) - 100)}
	s.Until = []limit.Micros{0, at, at + Ahead, at + limit.Day, at + limit.Day + 1, -1, math.MaxInt64, math.MinInt64}[r.IntN(8)]
	s.No = []uint64{0, 1, uint64(at), uint64(at - limit.Second), uint64(at + limit.Day), uint64(at+limit.Day) + 1, math.MaxUint64}[r.IntN(7)]
	for range r.IntN(maxSpans + 2) {
		a := limit.Micros(r.Int64N(int64(2 * at)))
		s.Used = append(s.Used, Span{a, a + limit.Micros(r.Int64N(int64(limit.Day)))})
	}
	return s
}

// A share that the table does not have is withheld as far as it is configured and there is room, and is replaced. One that is
// told to a region that nobody knows is 0.
func TestUnknownShare(t *testing.T) {
	s, _, _ := Shares{}.Heard("us", Statement{ID: 2}, now, 600)
	s, _ = s.Issued("us", 600, now)
	r := Record{ID: 1, Until: now, Share: Share{No: uint64(now - limit.Second), Part: 700, Since: now}, High: 700}
	s, unknown, err := s.Heard("eu", r.Statement(), now, 500)
	if part := s.Regions["eu"].most(); !unknown || err != nil || part != 400 {
		t.Fatalf("%v, %v, %d are withheld", unknown, err, part)
	}
	s, changed := s.Issued("eu", 500, now)
	if r = r.Replied(s.Reply("eu", 1, now)); !changed || r.Share.Part != 400 {
		t.Errorf("the region goes on with %+v", r.Share)
	}
	if r = r.Replied(s.Dead("eu").Reply("eu", 1, now+1)); r.Share.Part != 0 || r.Low != 0 {
		t.Errorf("a region that nobody knows has %+v", r.Share)
	}
}

// A record of another region, or a second store of this one, is rejected while the first is heard.
func TestOtherRecord(t *testing.T) {
	s, _, _ := Shares{}.Heard("eu", Statement{ID: 1, Until: now}, now, 500)
	if _, _, err := s.Heard("eu", Statement{ID: 2, Until: now + 1}, now+heardFor-1, 500); !errors.Is(err, ErrOtherRecord) {
		t.Error(err)
	}
	s, _, err := s.Heard("eu", Statement{ID: 2}, now+heardFor, 500)
	if r := s.Regions["eu"]; err != nil || r.ID != 2 || r.Until != now {
		t.Errorf("%v, %+v", err, r)
	}
	r := Record{ID: 2, Until: now, Share: Share{No: 1, Part: 500}}
	if other := r.Replied(Reply{ID: 1, At: now, Until: now + Ahead, Share: Share{No: 7}}); !reflect.DeepEqual(other, r) {
		t.Errorf("a reply to another record changed it to %+v", other)
	}
}

// A record that was lost renounces for as long as anybody may have been told to, and may have used what is not known to be
// renounced, of any share.
func TestLostRecord(t *testing.T) {
	for _, c := range []struct {
		until limit.Micros // that the aggregator knows
		want  Record
	}{
		{now - 1, Record{ID: 1, Until: now + Unknown, Used: []Span{{now - 1, now}}, Oldest: anyOlder}},
		{now, Record{ID: 1, Until: now + Unknown}},
		{now + Unknown + 1, Record{ID: 1, Until: now + Unknown + 1}},
	} {
		p := Reply{ID: 1, At: now, Until: c.until}
		got := Record{ID: 1}.Replied(p)
		if !reflect.DeepEqual(got, c.want) || got.Outdated(p) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// A record of any kind is either rejected, or does no harm: nothing panics, and what is renounced only grows.
func FuzzRecord(f *testing.F) {
	f.Add(uint64(1), int64(now), int64(now), int64(now+1), uint64(5), int64(500), int64(400), uint64(4), int64(now), int64(now))
	f.Add(uint64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), int64(1001), int64(-1), uint64(9), int64(0), int64(7))
	windows := []Window{{Period: limit.MaxPeriod, LooksBack: true}, {Period: limit.Second}, {Period: Ahead, Refills: true}}
	f.Fuzz(func(t *testing.T, id uint64, until, after, touched int64, no uint64, part, low int64, oldest uint64, cut, at int64) {
		m := func(x int64) limit.Micros { return limit.Micros(x) }
		r := Record{
			ID: id, Until: m(until), Used: []Span{{m(after), m(touched)}}, Span: Span{m(after), m(touched)}, Touched: m(touched),
			Share: Share{No: no, Part: PerMille(part), Since: m(at)}, Low: PerMille(low), High: PerMille(part), Oldest: oldest, Cut: m(cut), Held: m(cut),
		}
		if r.Check() != nil {
			return
		}
		time := min(max(m(at), 1), limit.Never)
		for _, next := range []Record{
			r.Replied(Reply{ID: id, At: time, Until: time, Used: []Span{{1, time}}, Share: Share{No: no, Part: 1}}),
			r.Renounced(time, time, time, windows), r.Hold(time), r.Remembered(Record{ID: 3, Until: time}), Record{ID: 3, Until: time}.Remembered(r),
		} {
			if next.Until < r.Until {
				t.Errorf("%+v: then %+v", r, next)
			}
		}
		next, p := r.Permitted(time)
		if part, _ := p.For(windows[0], windows[0].Begin(time)); part > max(r.High, r.Share.Part) || next.Until != r.Until || next.Check() != nil {
			t.Errorf("%+v: %d, %+v", r, part, next)
		}
	})
}
