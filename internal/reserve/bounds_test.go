package reserve

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// The tables below have a row on each side of each bound.

// A record that no region can have written is not used.
func TestImpossibleRecords(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Record)
		field  string // "": it is possible
	}{
		"as it is":                 {func(*Record) {}, ""},
		"no share":                 {func(r *Record) { r.Share.Part = 0 }, ""},
		"a negative share":         {func(r *Record) { r.Share.Part = -1 }, "part"},
		"all":                      {func(r *Record) { r.Share.Part, r.High = Whole, Whole }, ""},
		"more than all":            {func(r *Record) { r.Share.Part = Whole + 1 }, "part"},
		"a negative bound":         {func(r *Record) { r.Low = -1 }, "part"},
		"one bound":                {func(r *Record) { r.Low = r.High }, ""},
		"crossed bounds":           {func(r *Record) { r.Low = r.High + 1 }, "part"},
		"a bound above all":        {func(r *Record) { r.High = Whole + 1 }, "part"},
		"the newest is the oldest": {func(r *Record) { r.Oldest = 7 }, ""},
		"an older one is newer":    {func(r *Record) { r.Oldest = 8 }, "no"},
		"an older one of none":     {func(r *Record) { r.Share.No, r.Oldest = 0, anyOlder }, ""},
		"the last moment":          {func(r *Record) { r.Touched = limit.Never }, ""},
		"after it":                 {func(r *Record) { r.Touched = limit.Never + 1 }, "touched"},
		"before 1970":              {func(r *Record) { r.Held = -1 }, "touched"},
		"a span before its begin":  {func(r *Record) { r.Used = []Span{{2, 1}} }, "used"},
		"no number":                {func(r *Record) { r.ID = 0 }, "id"},
	} {
		r := Record{ID: 1, Until: now, Share: Share{No: 7, Part: 500}, Low: 400, High: 500}
		row.change(&r)
		var err *StatementError
		if errors.As(r.Check(), &err) != (row.field != "") || err != nil && err.Field != row.field {
			t.Errorf("%s: %v, want %q", name, err, row.field)
		}
	}
}

// What a replica renounces, when, and what it then knows of its share.
func TestRenounces(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Record)
		sent   limit.Micros
		want   func(Record) bool
	}{
		"as it is":                        {func(*Record) {}, now, func(r Record) bool { return r.Until == now+Ahead && r.Low == 500 && r.High == 500 }},
		"held":                            {func(r *Record) { r.Held = now + 1 }, now, func(r Record) bool { return r.Until == now }},
		"held no more":                    {func(r *Record) { r.Held = now }, now, func(r Record) bool { return r.Until > now }},
		"held as long as may be":          {func(r *Record) { r.Held = now + holdFor }, now, func(r Record) bool { return r.Until == now }},
		"held by a clock ahead":           {func(r *Record) { r.Held = now + holdFor + 1 }, now, func(r Record) bool { return r.Until > now }},
		"cut off before the call":         {func(r *Record) { r.Cut = now - 9 }, now - 9, func(r Record) bool { return r.Cut == 0 }},
		"cut off after the call":          {func(r *Record) { r.Cut = now - 8 }, now - 9, func(r Record) bool { return r.Cut == now-8 }},
		"nothing to renounce":             {func(r *Record) { r.Until, r.Touched = now+Ahead, now+Ahead+1 }, now, func(r Record) bool { return r.Touched != 0 && r.Used == nil }},
		"it knows nothing":                {func(r *Record) { r.Until = 0 }, now, func(r Record) bool { return r.Until == 0 }},
		"what was used":                   {func(r *Record) { r.Touched = now - 5 }, now, func(r Record) bool { return reflect.DeepEqual(r.Used, []Span{{now, now}}) && r.Low == 400 }},
		"the share counts a little later": {func(r *Record) { r.Share.Since = now + Ahead }, now, func(r Record) bool { return r.Low == 400 }},
		"the share counts":                {func(r *Record) { r.Share.Since = now + Ahead - 1 }, now, func(r Record) bool { return r.Low == 500 }},
	} {
		r := Record{ID: 1, Until: now, Share: Share{No: 7, Part: 500}, Low: 400, High: 600}
		row.change(&r)
		if got := r.Renounced(now, row.sent, now, nil); !row.want(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of two records a replica goes on with the newer one, and with what the older one may have used.
func TestRemembers(t *testing.T) {
	base := Record{ID: 1, Until: now, Touched: now + 5, Share: Share{No: 7, Part: 500}, Oldest: 3, Cut: 9}
	for name, row := range map[string]struct {
		read, memory func(*Record)
		used         []Span
		oldest       uint64
		cut          limit.Micros
	}{
		"the same":                {func(*Record) {}, func(*Record) {}, nil, 3, 9},
		"read is newer":           {func(*Record) {}, func(r *Record) { r.Touched-- }, nil, 3, 9},
		"memory is newer":         {func(r *Record) { r.Touched-- }, func(*Record) {}, nil, 3, 0},
		"read has renounced":      {func(r *Record) { r.Until += 10 }, func(*Record) {}, []Span{{now, now + 5}}, 3, 9},
		"and states an older one": {func(r *Record) { r.Until, r.Oldest = now+10, 2 }, func(*Record) {}, []Span{{now, now + 5}}, 2, 9},
		"memory has an older one": {func(r *Record) { r.Until, r.Oldest = now+10, 4 }, func(*Record) {}, []Span{{now, now + 5}}, 3, 9},
		"read has none":           {func(r *Record) { r.Until, r.Oldest = now+10, 0 }, func(*Record) {}, []Span{{now, now + 5}}, 3, 9},
		"nothing was used":        {func(r *Record) { r.Until += 10 }, func(r *Record) { r.Touched = 0 }, nil, 3, 9},
		"nothing was read":        {func(r *Record) { *r = Record{} }, func(*Record) {}, nil, 3, 0},
		"nothing is remembered":   {func(*Record) {}, func(r *Record) { *r = Record{} }, nil, 3, 9},
	} {
		read, memory := base, base
		row.read(&read)
		row.memory(&memory)
		if got := read.Remembered(memory); got.ID != 1 || !reflect.DeepEqual(got.Used, row.used) || got.Oldest != row.oldest || got.Cut != row.cut {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if r := base.shared(Share{No: 7, Part: 100}); r.Share.Part != 500 || r.High != 0 {
		t.Errorf("a share under the same number: %+v", r)
	}
	for until, outdated := range map[limit.Micros]bool{now: false, now + 1: true} {
		if got := base.Outdated(Reply{ID: 1, Until: until}); got != outdated {
			t.Errorf("of one who has stated %d: outdated %v", until-now, got)
		}
	}
	spans := slices.Repeat([]Span{{1, 2}}, maxSpans-1)
	if full := joined(spans, Span{3, 4}); len(full) != maxSpans || full[0] != (Span{1, 2}) || len(joined(full, Span{5, 6})) != maxSpans {
		t.Errorf("%d spans", len(full))
	}
}

// Which windows the reserve may be used in, and how much of it.
func TestPermits(t *testing.T) {
	r := Record{ID: 1, Until: now, Share: Share{No: 7, Part: 500, Since: now + 20}, Low: 400}
	if got, p := r.Permitted(now); got.Touched != 0 || got.Oldest != 0 || p.Extends(now) || !p.Extends(now+1) {
		t.Errorf("nothing is permitted yet: %+v, %+v", got, p)
	}
	r, p := r.Permitted(now + 30)
	if r.Touched != now+30 || r.Oldest != 7 || p.Extends(now+30) || !p.Extends(now+31) {
		t.Errorf("%+v, %+v", r, p)
	}
	w := Window{Period: 10}
	for begin, part := range map[limit.Micros]PerMille{now: 0, now + 1: 400, now + 20: 400, now + 21: 500, now + 30: 500, now + 31: 0} {
		if got, ok := p.For(w, begin); got != part || ok != (part > 0) {
			t.Errorf("%d later: %d, %v", begin-now, got, ok)
		}
	}
	if part, known := p.Part(); part != 500 || !known {
		t.Errorf("%d, %v", part, known)
	}
	if _, known := (Permission{}).Part(); known || (Permission{}).Known() {
		t.Error("nothing is known")
	}
}

// Windows without a calendar, and how long a bucket takes to fill.
func TestNear(t *testing.T) {
	w := Window{Period: 10 * limit.Second}
	if got := w.Near(25 * limit.Second); got != [3]limit.Micros{20 * limit.Second, 10 * limit.Second, 30 * limit.Second} {
		t.Errorf("near 25 s begin windows at %v", got)
	}
	for period, fills := range map[limit.Micros]limit.Micros{8: 3, 9: 3, 10: 4} {
		if got := fillTime(limit.Spec{Count: 3, Period: period, Burst: 1}); got != fills {
			t.Errorf("one of three in %d fills in %d", period, got)
		}
	}
}

// What an aggregator knows of regions.
func TestHears(t *testing.T) {
	full := Shares{Regions: map[string]Region{}}
	for i := range MaxRegions {
		full.Regions[number(i)] = Region{ID: 1}
	}
	if err := full.Check(); err != nil {
		t.Errorf("%d regions: %v", MaxRegions, err)
	}
	if full.Regions["another"] = (Region{ID: 1}); full.Check() == nil {
		t.Errorf("%d regions", MaxRegions+1)
	}
	for no, ok := range map[uint64]bool{uint64(now + limit.Day): true, uint64(now+limit.Day) + 1: false} {
		if err := (Statement{ID: 1, No: no}).Check(now); (err == nil) != ok {
			t.Errorf("the share of %d: %v", no, err)
		}
	}
	s := Shares{Regions: map[string]Region{"eu": {ID: 1, Until: now, Used: []Span{{1, 2}}}}}
	for until, used := range map[limit.Micros][]Span{now: {{1, 2}}, now + 1: {{3, 4}}} {
		next, _, err := s.Heard("eu", Statement{ID: 1, Until: until, Used: []Span{{3, 4}}}, now, 500)
		if got := next.Regions["eu"].Used; err != nil || !reflect.DeepEqual(got, used) {
			t.Errorf("renounced until %d: %v, %v", until-now, got, err)
		}
	}
	both := Shares{Regions: map[string]Region{"eu": {ID: 1, Issued: []Share{{1, 149, now}, {2, 20, now}}}}}
	if next, unknown, _ := both.Heard("eu", Statement{ID: 1, No: 2, Part: 20}, now, 500); unknown || next.Regions["eu"].most() != 20 {
		t.Errorf("the older share is still in force: %+v", next)
	}
	s, changed := s.Issued("eu", 500, now)
	if share := s.Regions["eu"].Issued[0]; !changed || share.Since != now+Ahead+maxBehind || share.Part != 500 {
		t.Errorf("%+v", share)
	}
	if _, changed := s.Issued("eu", 500, now+1); changed {
		t.Error("the same share again")
	}
	if s, changed = s.Issued("eu", 400, now); !changed || s.Regions["eu"].Issued[1].No != uint64(now)+1 {
		t.Errorf("another share: %+v", s)
	}
}

// A span has the windows that begin after its first time, and at its last. A limit that looks back also counts in the
// window before.
func TestSpanOfWindows(t *testing.T) {
	span := Span{10 * limit.Second, 30 * limit.Second}
	for at, want := range map[limit.Micros]bool{10: false, 11: true, 30: true, 31: false} {
		if span.Has(at*limit.Second) != want {
			t.Errorf("%v has %d s: want %v", span, at, want)
		}
	}
	for _, w := range []Window{{}, {LooksBack: true}, {Refills: true}} {
		w.Period = 10 * limit.Second
		if begin, counts := w.before(20 * limit.Second); begin != 10*limit.Second || counts != w.LooksBack {
			t.Errorf("before the window at 20 s is one at %v, counts: %v", begin, counts)
		}
		// A window of the span ends at 40 s. One that looks back, and a bucket, count for 10 s more.
		last := 40*limit.Second + Ahead
		if w.LooksBack || w.Refills {
			last += w.Period
		}
		if !w.runs(span, last-1) || w.runs(span, last) || w.runs(Span{30 * limit.Second, 35 * limit.Second}, 35*limit.Second) {
			t.Errorf("a span until 30 s does not matter until %v, or an empty one does", last)
		}
	}
}

// Of more spans than fit nothing is forgotten in which a window runs. Each outage has a limit of which a window began then.
func TestManySpans(t *testing.T) {
	at, windows := 1_000_000*limit.Second, []Window(nil)
	r := Record{ID: 1, Until: at, Share: Share{No: 1, Part: 500}}
	for range 3 * maxSpans {
		at += limit.Minute
		windows = append(windows, Window{Period: at})
		r, _ = r.Permitted(at)
		r = r.Renounced(at+limit.Second, at, at, windows)
		for _, w := range windows {
			if !slices.ContainsFunc(r.Used, func(s Span) bool { return s.Has(w.Begin(at)) }) {
				t.Fatalf("of %d windows the one of %d is forgotten: %v", len(windows), w.Begin(at), r.Used)
			}
		}
		if len(r.Used) > maxSpans || r.Check() != nil {
			t.Fatalf("%d spans: %v", len(r.Used), r.Check())
		}
	}
}

func TestWindowOf(t *testing.T) {
	for _, c := range []struct {
		spec limit.Spec
		want Window
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Minute}, Window{Period: limit.Minute}},
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 1, Period: limit.Minute}, Window{Period: limit.Minute, LooksBack: true}},
		{limit.Spec{Algorithm: limit.FixedWindow, Align: limit.AlignFirstRequest, Period: limit.Minute}, Window{Period: limit.Minute, LooksBack: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Second}, Window{Period: Ahead, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 3, Period: limit.Second, Burst: 10}, Window{Period: 3334 * limit.Millisecond, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 1, Period: limit.MaxPeriod, Burst: limit.MaxCount}, Window{Period: limit.MaxPeriod, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Period: limit.Second}, Window{Period: limit.MaxPeriod, Refills: true}},
	} {
		if got := WindowOf(c.spec); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.spec, got, c.want)
		}
	}
}
