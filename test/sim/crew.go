package sim

// crew are goroutines that answer calls. They are used again: that of a new one has to grow its
// stack with each call. The zero value has none; only the run's own goroutine may use it.
type crew struct{ jobs chan func() }

// do has a goroutine do it, one that waits for something to do if there is one.
func (c *crew) do(job func()) {
	if c.jobs == nil {
		c.jobs = make(chan func())
	}
	select {
	case c.jobs <- job:
	default:
		go func(jobs <-chan func()) {
			job()
			for next := range jobs {
				next()
			}
		}(c.jobs)
	}
}

// stop ends those that wait for something to do, and the others when they are done.
func (c *crew) stop() {
	if c.jobs != nil {
		close(c.jobs)
	}
}
