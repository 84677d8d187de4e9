// Package redisstore is the [engine.Store] of a region with several replicas:
// counters in Redis, which all of them share. Which masters there are, and which of them
// answer, is known to package topology.
//
//	Store        routes asks to nodes, and waits for them   (store.go, acquisition.go)
//	sender       a node's queue and lanes                   (sender.go, queue.go)
//	heartbeat    how many replicas and holders are alive    (heartbeat.go, holders.go)
//	cell         what replicas share besides counters       (shared.go)
//	metrics      what operators see                         (stats.go, trace.go)
//
// Every decision is one script run by Redis (package script), so that asks for one
// counter are applied one after the other on the clock of its server. A node has a
// few lanes. A lane takes all asks that have gathered for its node, sends them as
// one pipeline, and waits for the replies; asks that arrive meanwhile gather for the
// next pipeline. No ask waits for a timer. The busier a node is, the longer its
// pipelines are and the less each ask costs.
//
// # Sent once
//
// An ask is sent again only when a reply proves that it was not applied: NOSCRIPT,
// MOVED and ASK. After a network error it is unknown whether the ask was applied, and
// the ask is answered Unavailable.
//
// # What can be lost
//
// A Redis that restarts, or fails over to a replica that lags, loses counters.
// These start again from zero: the cost is at most one more limit for the period in
// which it happened. While a node does not answer, its keys are Unavailable; the keys
// of other nodes are not affected.
package redisstore
