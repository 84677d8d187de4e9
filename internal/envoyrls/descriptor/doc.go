// Package descriptor reads the configuration of envoyproxy/ratelimit, unchanged,
// and finds the rule of a descriptor in it.
//
// A descriptor is a list of entries, each a key and a value; a configuration is a
// tree for each domain, whose levels the entries walk down one by one. At each
// level the child with exactly this key and value is taken, else the first in the
// file of those with this key whose wildcard (each * stands for zero or more
// bytes) matches the value, else the one with this key and no value. There is no
// way back up: what was taken at one level decides which children there are at the
// next. The rule is that of the last entry's level, and only if the walk used all
// entries. A descriptor without a rule is allowed and not counted.
//
// A level that was found by a wildcard or by its key alone has a counter for each
// value, except that share_threshold makes all values of a wildcard share one.
//
// Where this package differs from envoyproxy/ratelimit on purpose:
//
//   - Keys and values are compared as pairs, never as "key_value": (a, b_c) is not
//     (a_b, c), a value "*" of key a does not match an entry whose key is a_x, and a
//     rule for key a_b does not match (a, b). A * in a key is an ordinary character.
//   - A limit that comes with a request replaces the numbers of the rule that its
//     descriptor matches, not its name, replaces, modes or metadata; without such a
//     rule it stands alone. Its values are not in the metric.
//   - detailed_metric and value_to_metric do not lose the rule's metadata.
//   - Counters are named by the rule and the unit as well, so a rule whose unit
//     changes begins anew, and two rules never share a counter.
//   - Files are read in the order of their names, so that merged domains have one
//     order of wildcards. A file that cannot be read is an error, as is a directory
//     without files; one whose name begins with a dot is ignored; links to folders
//     are followed.
//   - All mistakes are reported, with file, line and path. What the other silently
//     ignores (fields in the wrong place, a field given twice, a second document) is
//     a warning.
//   - A field that is given counts, wherever the << stands that merges it too.
//   - A fraction of requests_per_unit, which both drop, is a warning.
//   - Numbers with a fraction are legal values, taken as written. With unlimited any
//     unit is an error, not only a valid one. Tags beyond those of JSON are errors,
//     as are numbers of metadata that are not finite.
package descriptor
