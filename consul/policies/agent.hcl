# The token of an agent itself (acl.tokens.agent), on servers and clients. Each line is one right.

# It registers its node, and keeps the node's checks and addresses up to date.
node_prefix "" { policy = "write" }

# It compares the services that Consul has for its node with those that it has.
service_prefix "" { policy = "read" }
