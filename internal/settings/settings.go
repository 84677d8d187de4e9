// Package settings reads the configuration of a program into a struct, whose fields are its settings, and checks the values.
//
// A field can be set in four places. The first that has a value wins:
//
//	flag         --max-keys 200000
//	environment  WEIR_MAX_KEYS=200000
//	file         max_keys: 200000      (YAML, named by --config)
//	default
package settings

import (
	"cmp"
	"fmt"
	"net"
	"slices"
)

// Address rejects a value that is not host:port.
func Address(field, value string) error {
	_, port, err := net.SplitHostPort(value)
	return Reject(err != nil || port == "", "%s: %q must be host:port, such as 127.0.0.1:8080, or :8080 for every interface", field, value)
}

// Between rejects a value out of a range, ends included.
func Between[T cmp.Ordered](field string, value, least, most T) error {
	return Reject(value < least || value > most, "%s: %v must be %v to %v", field, value, least, most)
}

// OneOf rejects a value that is not one of allowed.
func OneOf(field, value string, allowed ...string) error {
	return Reject(!slices.Contains(allowed, value), "%s: %q must be one of %q", field, value, allowed)
}

// Reject rejects settings that do not fit together, if wrong.
func Reject(wrong bool, format string, args ...any) error {
	if wrong {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// Pair rejects one of two fields without the other.
func Pair(a, valueA, b, valueB string) error {
	return Reject((valueA == "") != (valueB == ""), "%s: goes together with %s; give both or none", a, b)
}
