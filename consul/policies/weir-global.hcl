# The token of weir-global. Each line is needed, and is one right.

# It registers itself.
service "weir-global" { policy = "write" }

# With --rules consul: it reads the rules, and its admin API changes them.
key_prefix "weir/rules/" { policy = "write" }
