// Package rule is the model of Weir's rules: a rule ([Rule]), a set of rules and its
// compiled form ([NewSet], [Set.Encode]), and what of them applies to a request
// ([Set.Match]). Package read reads rules from a document, package check defines which are
// legal.
//
// The same code evaluates at the edge, inside the Envoy filter, and in the
// region, so that both always agree. It is pure, as are the packages below it: no clock, no
// goroutine, nothing but the standard library, and of that neither fmt nor encoding/json
// nor reflect, because the filter's size is Envoy's start-up time.
//
// All rules that match a request apply to it; it passes when every one admits it.
//
// # What of a request counts
//
//   - Method: as it is sent. HTTP methods have case, but some services ignore it; a match
//     with ignore_case ignores it, too.
//   - Host: :authority without its port and without a dot at the end, in any case.
//   - Path: :path up to '?' or '#', byte for byte. Envoy normalises it before (see
//     normalize_path and merge_slashes in its configuration) and routes by the same
//     text; a second normalisation here could only disagree. Services often take more
//     paths for the same, and so can a match: letters of any case, a slash at the end,
//     path parameters (ignore_case, trailing_slash, path_parameters). These paths then
//     also have one key.
//   - Header: names have no case. A header sent several times is one value, joined
//     by ',' as Envoy joins them; so no request with two values passes for one with
//     either of them. For a key an empty header counts as missing.
//   - Query parameter: likewise, all values of its name, joined by ','. Names and
//     values are decoded; a broken encoding is kept as it is.
//   - Cookie: likewise; all cookie headers are one list, separated by ';'. Values are as they
//     are sent, and names have case.
//   - Claim, certificate, route: what Envoy has verified and chosen, see [Fetcher].
//   - Region and labels: of the PoP, see [PoP].
//   - Percent: by a hash of the key, so that a client is in or out, see [Percent].
//   - Cost: the largest of the header's values, sent in one header as a list or in
//     several.
//   - Client address: the peer's, or the one that a trusted proxy wrote; never one that
//     the client claims. IPv6 by /64 unless the rule sets another prefix. X-Forwarded-For
//     is read as the filter gets it: where Envoy has use_remote_address, it has
//     appended its own peer already, which is hop 1.
//   - A key longer than 96 bytes is replaced by its hash, see [MaxKey].
//
// A request that lacks a part of the key, and every else of that part, is not
// counted by the rule and not refused by it; [Matches.MissingKey] reports it.
//
// # Compiled form
//
// It is the rule language itself, as JSON in one canonical spelling: regions send
// it to edges, and it can be bundled in the filter's plugin configuration. There
// is one reader for it and for rules files, and one place that defines what is legal, so
// the edge is exactly as strict as `weir validate`.
package rule
