package limiter

// formerOf counts a call of a holder that another store, or another life of this one, answered
// last. It returns the name of the holder for Ask.Former; 0 if there was none since its first
// call, or the store does not use what it remembers.
func (s *Service) formerOf(x *exchange, ours uint64) uint64 {
	foreign := x.request.Epoch != 0 && x.request.Epoch != ours
	if foreign {
		s.metrics.foreign.Inc()
		s.notices.warn(&s.notices.foreign, x, "another store, or this one before a restart, answered a caller last")
	}
	if !s.holders.former(x.holder, foreign) || !s.learn {
		return 0
	}
	return x.holder.hash()
}

// former notes whether a call of a holder presents another epoch than ours, and reports whether
// one of its calls did so.
func (h *holders) former(id HolderID, foreign bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := h.known[id]
	if who == nil { // it has been forgotten just now
		return false
	}
	who.former = who.former || foreign
	return who.former
}
