# The token with which an agent answers questions of DNS (acl.tokens.dns of the agent), for an
# Envoy that finds its region there. REGION is the region. Each line is needed, and is one right.

# The replicas.
service "weir-regional-REGION" { policy = "read" }

# Consul shows a service only with the node that it runs on.
node_prefix "" { policy = "read" }
