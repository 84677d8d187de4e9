# The token with which a server of another region than the primary copies the primary's tokens
# (acl.tokens.replication). It reads their secrets, which takes the right to write: give it to servers alone.
acl = "write"
