// Package rule is Weir's rule language: what a rule says ([Rule]), the checks that
// every rule passes ([New]), its compiled form ([Set.Encode], [Decode]) and its
// evaluation on a request ([Set.Match]).
//
// The same code evaluates at the edge, inside the Envoy filter, and in the
// region, so that both always agree. It is pure: no clock, no goroutine, nothing
// but the standard library, and of that neither fmt nor encoding/json nor reflect,
// because the filter's size is Envoy's start-up time.
//
// All rules that match a request apply to it; it passes when every one admits it.
package rule
