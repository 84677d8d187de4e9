// Package settings reads the configuration of a program into a struct whose fields are
// its settings, and checks their values.
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

// Address refuses a value that is not host:port.
func Address(field, value string) error {
	if _, port, err := net.SplitHostPort(value); err != nil || port == "" {
		return fmt.Errorf("%s: %q must be host:port, such as 127.0.0.1:8080, or :8080 for every interface", field, value)
	}
	return nil
}

// Between refuses a value out of a range, ends included.
func Between[T cmp.Ordered](field string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("%s: %v must be %v to %v", field, value, least, most)
	}
	return nil
}

// OneOf refuses a value that is not one of allowed.
func OneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q must be one of %q", field, value, allowed)
}

// Pair refuses one of two fields without the other.
func Pair(a, valueA, b, valueB string) error {
	if (valueA == "") != (valueB == "") {
		return fmt.Errorf("%s: goes together with %s; give both or none", a, b)
	}
	return nil
}
