# The token of weir-regional. REGION is the region. Each line is needed, and is one right.

# It registers itself, and counts the replicas of its region.
service "weir-regional-REGION" { policy = "write" }

# It finds the aggregators.
service "weir-global" { policy = "read" }

# Consul shows a service only with the node that it runs on.
node_prefix "" { policy = "read" }

# With --rules consul: it reads the rules, and in another datacenter keeps a copy of them.
key_prefix "weir/rules/" { policy = "read" }
key_prefix "weir/rules-copy/REGION/" { policy = "write" }
