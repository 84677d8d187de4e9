# The token of a person who applies rules. Each line is needed, and is one right.
key_prefix "weir/rules/" { policy = "write" }

# `weir rules apply` looks which rules the programs have, so that it can tell whether they take the new ones.
service_prefix "weir-regional-" { policy = "read" }
service "weir-global" { policy = "read" }

# Consul shows a service only with the node that it runs on.
node_prefix "" { policy = "read" }
