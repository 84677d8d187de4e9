// Package envoyrls serves Envoy's rate limit service (envoy.service.ratelimit.v3), as a
// drop-in for envoyproxy/ratelimit, over a [engine.Judge].
//
//	request ─▶ check ─▶ match each descriptor to a rule ─▶ asks ─▶ Judge ─▶ reply
//
// A request is one group of asks: if one of its descriptors is over its limit, none
// of the others is charged. (With [Config.ChargeDenied] there is no group, each
// descriptor is charged by itself.) These asks are outside of the group, each alone:
//
//   - peeks (a descriptor's hits_addend is present and 0): the reply has what is left,
//     and nothing is charged;
//   - rules in shadow_mode, which never refuse anything;
//   - rules in quota_mode, which refuse a request only if all of its rules with
//     quota_mode do. A rule that is also in shadow_mode never does.
//
// Their charges are returned if the request is refused.
//
// A descriptor that no rule matches is allowed and not counted, and so is one of an
// unknown domain. While the store does not answer, each rule's on_failure decides;
// the reply is not an error then.
//
// Descriptors may also be bound to rules of the rules file (package binding). Their
// algorithm, key and limit are then those of the rule, and PoPs and clients of this
// service share its counters. A descriptor with its own limit is not bound.
package envoyrls
