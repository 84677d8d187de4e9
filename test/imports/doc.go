// Package imports fails its tests when a package imports what it must not.
//
// The rules keep the pure core pure (time is an argument, outputs are data), contracts free
// of transports, the programs apart from each other and from what tests are made of, each
// foreign system behind one package, and the filter small: its size is its start-up time.
// Only what is compiled into programs is held to them; tests may import anything.
package imports
