# The token of weir-global. Each line is needed, and is one right.

# It registers itself.
service "weir-global" { policy = "write" }

# With --rules consul: it reads the rules, and in another datacenter keeps a copy of them.
key_prefix "weir/rules/" { policy = "read" }
key_prefix "weir/rules-copy/" { policy = "write" }
