package wire

// Error is why a message was refused.
type Error = malformed

// Bounds that tests reach.
const (
	MaxRules = maxRules
	MaxSpans = maxSpans
)
