package limiter

// countForeign counts a call of a holder that another store, or another life of this one, answered
// last.
func (s *Service) countForeign(x *exchange, ours uint64) {
	if x.request.Epoch != 0 && x.request.Epoch != ours {
		s.metrics.foreign.Inc()
		s.notices.warn(&s.notices.foreign, x, "caller was last answered by another store, or before a restart")
	}
}
