package aggregator

import "context"

// StoresOf is how many stores are kept of a region.
func StoresOf(s *Store, region string) int { return len(s.links.known[region].stores) }

// Exchange exchanges what is known of reserves once, and reports it, as Run does again and again.
func (s *Store) Exchange(ctx context.Context) error {
	defer s.reserves.report()
	return s.reserves.exchange(ctx)
}
