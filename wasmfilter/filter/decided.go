package filter

import "github.com/weirlimit/weir/internal/lease"

// mostFinished is how many requests that waited one callback resumes or rejects. Envoy does that
// after the callback, each inside the one before it if a response follows at once. V8 discards a
// VM whose stack is full: in Envoy 1.40 after 304 rejections, or 273 resumed requests whose route
// has a direct_response, whatever filters stand beside it. Envoy's timers may come only every 4 ms,
// so a smaller number would delay the last of many requests.
const mostFinished = 96

// decided is a queue of streams that waited and have a verdict. All plugins of a VM share it, because
// one filter chain may have several. Streams that have ended meanwhile are skipped.
type decided struct {
	streams []uint32
	first   int // index of the next one
}

func (d *decided) add(stream uint32) { d.streams = append(d.streams, stream) }

func (d *decided) empty() bool { return d.first == len(d.streams) }

// next removes the first one. There must be one.
func (d *decided) next() (stream uint32) {
	stream = d.streams[d.first]
	if d.first++; d.empty() {
		d.streams, d.first = d.streams[:0], 0
	}
	return stream
}

// finishSome finishes at most mostFinished decided streams. Only ticks and answers call it: Envoy runs
// the callbacks of streams inside what it does after another callback.
func (m *vm) finishSome() {
	for n := 0; n < mostFinished && !m.decided.empty(); {
		if s := m.streams.find(m.decided.next()); s != nil {
			s.plugin.finish(&s.request)
			n++
		}
	}
}

// pace sets the period of the plugin's ticks: 1 ms while there are decided streams, otherwise the time
// until its next upkeep.
func (p *plugin) pace(now lease.Millis) {
	period := p.period
	switch {
	case !p.vm.decided.empty():
		period = 1
	case period != tickEvery:
		period = uint32(min(max(p.ticked+tickEvery-now, 1), tickEvery))
	}
	if period != p.period {
		p.period = period
		p.host.effective(p.context)
		p.host.setTick(period)
	}
}
