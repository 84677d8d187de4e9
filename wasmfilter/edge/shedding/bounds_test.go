package shedding

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/shed"
)

const noon lease.Millis = 1_800_000_000_000

// step is a load of three times what the upstream can do from 20 s to a time, and a tenth of it before and after.
func step(until int64) func(int64) float64 {
	return func(now int64) float64 {
		if now < 20_000 || now >= until*1000 {
			return 0.1
		}
		return 3
	}
}

// wall is a clock that goes right.
func wall(now int64) lease.Millis { return noon + lease.Millis(now) }

// base is what the runs below change: capacity 200 and an upstream of 140 servers, so that all of them have work at
// 0.7 of the capacity. Critical requests are 0.36 of what it can do.
func base(p shed.Profile, workers int, until, length int64) model {
	return model{
		servers: 140, replicas: 1, slow: 1, broken: func(int64) bool { return false },
		capacity: 200, profile: p, workers: workers, clock: wall, stalls: func(int, int64) bool { return false },
		mix: [shed.Classes]float64{shed.Bulk: 0.2, shed.Low: 0.28, shed.Normal: 0.4, shed.Critical: 0.12}, keys: [shed.Classes]int{5000, 5000, 5000, 5000}, offered: step(until), length: length * 1000,
	}
}

// outcome is what a run came to in some seconds.
type outcome struct {
	critical, goodput float64 // served of what was offered; done of what could be
	mean, sigma       float64 // of the ratio
	swings            int     // how often the ratio turned and went by 0.1
	back              int64   // seconds from the end of them until nothing is rejected by ratio
}

func (r *run) outcome(from, to int64) (o outcome) {
	var offered, served, done, could float64
	for _, s := range r.seconds[from:to] {
		offered += float64(s.offered[shed.Critical])
		served += float64(s.served[shed.Critical])
		done += float64(s.done)
		could += s.could
	}
	o.critical, o.goodput = served/offered, done/could
	ratios := r.ratios[from*10 : to*10]
	for _, x := range ratios {
		o.mean += x / float64(len(ratios))
	}
	for _, x := range ratios {
		o.sigma += (x - o.mean) * (x - o.mean) / float64(len(ratios))
	}
	o.sigma, o.swings = math.Sqrt(o.sigma), swings(ratios)
	for i, x := range r.ratios[to*10:] {
		if x > 0 {
			o.back = int64(i)/10 + 1
		}
	}
	return o
}

// swings counts how often a series turns and then goes by a tenth.
func swings(series []float64) (n int) {
	low, high, up := series[0], series[0], 0
	for _, x := range series {
		low, high = min(low, x), max(high, x)
		switch {
		case up <= 0 && x >= low+0.1:
			n, up, high = n+1, 1, x
		case up >= 0 && x <= high-0.1:
			n, up, low = n+1, -1, x
		}
	}
	return n
}

// threeClients send more than half, and are at most 3 % of the samples: a little of the ratio moves much.
func threeClients(m *model) {
	m.capacity, m.orca = 1000, func(_ int64, busy float64) int64 { return int64(busy * 1000) }
	m.mix, m.keys[shed.Bulk] = [shed.Classes]float64{shed.Bulk: 0.6, shed.Low: 0.1, shed.Normal: 0.18, shed.Critical: 0.12}, 3
	load := m.offered
	m.offered = func(now int64) float64 { return min(load(now), 1.3) }
}

// TestBounds: what a shed rule promises, whatever happens.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		profile  shed.Profile
		until    int64 // seconds: the overload ends
		settled  int64 // before that the ratio may still move
		change   func(*model)
		critical float64 // served at least; 0: not looked at
		goodput  float64
		workers  int // 0: with one and with two
	}{
		{"step", shed.Slow, 200, 140, nil, 0.999, 0.95, 0},
		{"step", shed.Fast, 400, 340, nil, 0.999, 0.95, 0},
		{"ramp up and down", shed.Fast, 250, 70, func(m *model) {
			m.offered = func(now int64) float64 { return max(0.1, 3-math.Abs(float64(now-160_000))/140_000*2.9) }
		}, 0.999, 0.93, 0},
		{"backend that flaps", shed.Slow, 200, 140, func(m *model) { m.halves = 7000 }, 0.999, 0.95, 0},
		{"backend that flaps", shed.Fast, 400, 340, func(m *model) { m.halves = 7000 }, 0.999, 0.95, 0},
		{"slow replica", shed.Slow, 200, 140, func(m *model) { m.servers, m.replicas, m.slow = 138, 3, 5 }, 0.999, 0.95, 0},
		{"slow replica", shed.Fast, 400, 340, func(m *model) { m.servers, m.replicas, m.slow = 138, 3, 5 }, 0.999, 0.95, 0},
		{"all critical", shed.Slow, 200, 170, func(m *model) { m.mix = [shed.Classes]float64{shed.Critical: 1} }, 0, 0.95, 0},
		{"all critical", shed.Fast, 100, 40, func(m *model) { m.mix = [shed.Classes]float64{shed.Critical: 1} }, 0, 0.95, 0},
		{"all normal", shed.Fast, 100, 40, func(m *model) { m.mix = [shed.Classes]float64{shed.Normal: 1} }, 0, 0.95, 0},
		{"worker that never ticks", shed.Fast, 200, 140, func(m *model) {
			m.stalls = func(w int, _ int64) bool { return w == 1 }
		}, 0.999, 0.95, 2},
		{"worker that does not tick for 30 s", shed.Fast, 200, 140, func(m *model) {
			m.stalls = func(w int, now int64) bool { return w == 1 && now > 140_000 && now < 170_000 }
		}, 0.999, 0.95, 2},
		{"clock that stands still", shed.Fast, 200, 40, func(m *model) { m.clock = func(int64) lease.Millis { return noon } }, 0.999, 0.95, 0},
		{"clock that jumps an hour, and back", shed.Fast, 200, 100, func(m *model) {
			m.clock = func(now int64) lease.Millis { return wall(now + now/10_000%2*3_600_000) }
		}, 0.999, 0.95, 0},
		{"upstream that says it is full", shed.Fast, 100, 40, func(m *model) {
			m.orca = func(now int64, _ float64) int64 {
				if now < 100_000 {
					return 1000
				}
				return 0
			}
		}, 0.999, 0, 0},
		{"upstream that says how full it is", shed.Slow, 300, 240, func(m *model) {
			m.capacity, m.orca = 1000, func(_ int64, busy float64) int64 { return int64(busy * 1000) }
		}, 0.999, 0.7, 0},
		{"upstream that says how full it is", shed.Fast, 200, 100, func(m *model) {
			m.capacity, m.orca = 1000, func(_ int64, busy float64) int64 { return int64(busy * 1000) }
		}, 0.999, 0.7, 0},
		{"three clients send most, and it says how full it is", shed.Slow, 300, 240, threeClients, 0.999, 0.65, 0},
		{"three clients send most, and it says how full it is", shed.Fast, 200, 100, threeClients, 0.999, 0.65, 0},
		{"upstream that fails", shed.Fast, 100, 40, func(m *model) {
			m.success, m.broken = 95, func(now int64) bool { return now >= 20_000 && now < 100_000 }
		}, 0, 0, 0},
	} {
		for workers := 1; workers <= 2; workers++ {
			if c.workers != 0 && c.workers != workers || testing.Short() && (workers == 1 || c.profile == shed.Slow || c.until > 200) {
				continue
			}
			t.Run(c.name+" "+c.profile.String()+" "+string('0'+rune(workers)), func(t *testing.T) {
				t.Parallel()
				back := map[shed.Profile]int64{shed.Slow: 120, shed.Fast: 8}[c.profile]*10/8 + 10 // idle by nine tenths; and the window of responses
				m := base(c.profile, workers, c.until, c.until+back+5)
				if c.change != nil {
					c.change(&m)
				}
				r := m.run(t)
				o := r.outcome(c.settled, c.until)
				t.Logf("critical %.4f, goodput %.3f, ratio %.3f, sigma %.3f, swings %d, back after %d s, most in flight %d",
					o.critical, o.goodput, o.mean, o.sigma, o.swings, o.back, r.most)
				switch {
				case o.critical < c.critical:
					t.Errorf("%.4f of critical requests are served", o.critical)
				case c.goodput > 0 && o.goodput < c.goodput:
					t.Errorf("goodput is %.3f of what can be done", o.goodput)
				case o.sigma >= 0.05 || o.swings > 1+int(c.until-c.settled)/100: // one swing is a ratio that still goes up
					t.Errorf("the ratio oscillates: %.3f, %d times", o.sigma, o.swings)
				case o.back > back:
					t.Errorf("after %d s something is still rejected", o.back)
				case r.most > m.capacity*13/10:
					t.Errorf("%d in flight", r.most)
				}
			})
		}
	}
}
