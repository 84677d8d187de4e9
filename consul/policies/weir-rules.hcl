# The token of a person who applies rules.
key_prefix "weir/rules/" { policy = "write" }
