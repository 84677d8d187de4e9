package aggregator

import "context"

// Exchange exchanges what is known of reserves once, and reports it, as Run does again and again.
func (s *Store) Exchange(ctx context.Context) error {
	defer s.reserves.report()
	return s.reserves.exchange(ctx)
}
