# The token of an agent itself (acl.tokens.agent), on servers and clients. REGION is the region, and ROLE what runs
# beside the agent: pop, service (replicas), aggregator or consul (a server). Each line is one right.

# It registers its node, and keeps the node's checks and addresses up to date. The names of such nodes begin so.
node_prefix "REGION-ROLE-" { policy = "write" }

# It compares the services that Consul has for its node with those that it has.
service_prefix "" { policy = "read" }
