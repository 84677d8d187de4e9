// Package topology knows the masters of a Redis: which one serves a hash slot, and
// whether it answers. Redis may be one server, a master that Redis Sentinel monitors, or
// a cluster. The package does not know what is stored there.
//
//	Topology   which master serves a hash slot             (topology.go)
//	finder     how the masters are found                   (finder.go, cluster.go)
//	Node       a master: client, pipelines, breaker        (node.go, breaker.go)
//	Kind       what a reply of a server means              (reply.go, address.go)
//	Memory     what operators see of it                    (stats.go)
//
// A user of the package makes a [Sender] for each node, takes the node of a hash slot from
// [Topology.At], sends commands with [Node.Pipeline], and passes redirects to [Node.Follow].
//
// # Sent once
//
// Each node has a client of its own, which never retries: only the user of the package decides
// whether a command is sent again. RATIONALE.md ("No repeated commands") compares this with go-redis'
// ClusterClient. go-redis' AutoPipeline is not used, because it retries, and shares a queue between
// masters.
package topology
