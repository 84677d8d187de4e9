package wire

// Bounds that tests reach.
const (
	MaxRules = maxRules
	MaxSpans = maxSpans
)
