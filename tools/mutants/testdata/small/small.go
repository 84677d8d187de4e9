// Package small has an operator of each kind, for the tests of mutants.
package small

// Size is large from 10 on, and small below; "none" is neither.
func Size(name string, n int) string {
	Calls++
	switch {
	case name == "none":
		return name + "!"
	case n >= 10:
		return "large"
	}
	return "small"
}

// Calls counts the calls of Size.
var Calls int
