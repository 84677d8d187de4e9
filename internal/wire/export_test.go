package wire

// Error is why a message was rejected.
type Error = malformed

// Bounds that tests reach.
const (
	MaxRules = maxRules
	MaxSpans = maxSpans
)
