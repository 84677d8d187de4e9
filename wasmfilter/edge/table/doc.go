// Package table keeps the entries of a PoP's keys in memory that all worker threads
// of an Envoy share.
//
// The memory is a map of byte strings with compare-and-set and without delete
// ([Store]). One entry per key would grow it without bound, so the table is a
// fixed number of pages, chosen by a seeded hash of the key; a page is one entry
// of the map and holds up to [PageEntries] keys. A page is as long as what it
// holds: few keys cost little.
//
// A worker reads a page, changes one entry and writes the page if no other worker has
// written it meanwhile ([Table.Open], [Table.Commit]). A full page evicts an entry of the rule
// that has the most entries in it, if the region knows what it holds ([Eviction]). A counter that
// exists nowhere else is not lost: keys without a place share one ([Table.OpenShared]).
//
// The package is pure: no clock, no goroutine. A Table is for one goroutine; any
// number of Tables may share a Store.
package table
