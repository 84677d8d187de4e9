package aggregator

// StoresOf is how many stores are kept of a region.
func StoresOf(s *Store, region string) int { return len(s.links.known[region].stores) }
