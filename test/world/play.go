package world

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Play makes a world, has f use it, and closes it. Where regions call an aggregator, or replicas have
// lease caches, goroutines of the product take part: then f runs in a bubble of testing/synctest, with a
// clock that starts in the year 2000 and stands still while f does not call [World.Run]. So f must not wait
// for goroutines outside, and not keep the world.
//
// The bubble needs no test: a zero testing.T is enough for a program that calls none of its methods.
func Play(c Config, f func(w *World) error) (err error) {
	if !c.concurrent() {
		return play(c, f)
	}
	if c.NoJitter { // goroutines that run at one instant take turns, in the same order each time
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(new(testing.T), func(*testing.T) { err = play(c, f) })
	return err
}

func play(c Config, f func(w *World) error) error {
	w := newWorld(c)
	defer w.close()
	return f(w)
}
