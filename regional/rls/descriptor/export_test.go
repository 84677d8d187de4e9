package descriptor

// Glob reports whether a value is what a pattern with at least one star stands for.
func Glob(pattern, value string) bool { return newGlob(pattern).match(value) }
