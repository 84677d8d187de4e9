// Package rls serves Envoy's rate limit service (envoy.service.ratelimit.v3), as a
// drop-in for envoyproxy/ratelimit, over a [limiter.Judge].
//
//	request ─▶ check ─▶ match each descriptor to a rule ─▶ asks ─▶ Judge ─▶ reply
//
// A request is one group of asks: if one of its descriptors is over its limit, none
// of the others is charged. (With [Config.ChargeDenied] there is no group, each is
// charged by itself.) Outside of the group, each alone, are asked
//
//   - what only wants to know (a descriptor's hits_addend is present and 0): it is
//     told what is left, and charged nothing;
//   - rules in shadow_mode, which never refuse anything;
//   - rules in quota_mode, which refuse a request only if all of its rules of that
//     kind do; one in shadow_mode too never does.
//
// What these were charged is given back if the request is refused.
//
// A descriptor that no rule matches is allowed and not counted, and so is one of an
// unknown domain. While the store does not answer, each rule's on_failure decides;
// the reply is never an error for that.
//
// Descriptors may also be bound to rules of the rules file (package binding); then their
// algorithm, key and limit are those of the rule, and what PoPs and clients of this
// service spend is one count. One that brings its own limit is not bound.
package rls
