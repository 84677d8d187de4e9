// Package redisstore is the [limiter.Store] of a region with several replicas:
// counters in Redis, which all of them share. Redis may be one server, a master
// that sentinels look after, or a cluster.
//
//	Store      routes asks to nodes, and waits for them   (store.go, call.go)
//	group      all or none, over several nodes            (group.go)
//	node       a master: queue, lanes, breaker            (node.go, queue.go, breaker.go)
//	lane       one pipeline after the other, and replies  (lane.go, reply.go)
//	topology   which master serves a key                  (topology.go, finder.go)
//	heartbeat  how many replicas are alive                (heartbeat.go)
//
// Every decision is one script run by Redis (package script), so that asks for one
// counter are applied one after the other on the clock of its server. A node has a
// few lanes. A lane takes all asks that have gathered for its node, sends them as
// one pipeline, and waits for the replies; what arrives meanwhile gathers for the
// next one. Nobody waits for a timer, and the busier a node, the longer its
// pipelines and the cheaper an ask.
//
// # Sent once
//
// An ask is sent again only when a reply proves that it was not applied: NOSCRIPT,
// MOVED and ASK. After an error of the network nobody knows, and the ask is
// answered Unavailable. That is why neither go-redis' ClusterClient is used nor its
// AutoPipeline: both may send again what was sent before, and neither sends to a
// node that is named. Here each node has a client of its own, which never retries.
//
// # What can be lost
//
// A Redis that restarts, or fails over to a replica that lags, loses counters, and
// these begin anew: at most one more limit for the period in which it happened.
// While a node does not answer, its keys are Unavailable, and those of the others
// are not affected.
package redisstore
