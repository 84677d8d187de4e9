package sim

import (
	"fmt"
	"testing"
)

// TestSmallLimits: of a limit of few units no request is rejected that one exact limiter would admit, whichever PoPs it
// comes to, and no request asks twice.
func TestSmallLimits(t *testing.T) {
	play := func(f Few) {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			r, err := f.Play()
			if err != nil || r.False != 0 || r.Asks > r.Requests || r.Counted > r.Requests {
				t.Errorf("%+v, %v; want no false rejections, and no more asks than requests", r, err)
			}
		})
	}
	for _, regions := range []int{1, 3} {
		for _, order := range Orders {
			play(Few{Regions: regions, Limit: 5, Percent: 100, Order: order})
			play(Few{Regions: regions, Limit: 20, Percent: 150, Order: order})
			play(Few{Regions: regions, Limit: 50, Percent: 100, Order: order})
		}
	}
	for _, order := range Orders {
		play(Few{Regions: 3, Limit: 250, Percent: 100, Order: order})
	}
}

// TestLeasesOfALargerLimit: a limit of more units saves calls, and few requests of it wait.
func TestLeasesOfALargerLimit(t *testing.T) {
	for regions, limit := range map[int]int64{1: 200, 3: 1000} {
		r, err := Few{Regions: regions, Limit: limit, Percent: 100, Order: "in turn"}.Play()
		if err != nil || 50*r.False > limit || 2*r.Asks > r.Admitted || 5*r.Waited > r.Requests {
			t.Errorf("%d per minute over %d regions: %+v, %v; want at most 2 %% false rejections, half as many asks and a fifth that wait", limit, regions, r, err)
		}
	}
}
