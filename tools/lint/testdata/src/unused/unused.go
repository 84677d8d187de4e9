// Package unused has a function that is used and one that is not.
package unused

func Exported() { inner() }

func inner() {}

func nobody() {} // want "func nobody is unused"
