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
