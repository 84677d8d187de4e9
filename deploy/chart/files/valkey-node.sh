#!/bin/sh
# Starts a node of the Valkey Cluster that the chart has. Beside it a loop has it meet the nodes that it does
# not know where they are: their addresses change when pods start, even of all nodes at once.
# NODES: the names of all nodes. NODE_IP: the address of this one. PORT. ETC, SECRET, RUN: directories.
set -eu
umask 077
password=$(cat "$SECRET/password")
[ -n "$password" ] || { echo "$SECRET/password is empty: put a password into the Secret" >&2; exit 1; }
hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
sed "s/PASSWORD_SHA256/$hash/" "$ETC/users.acl" >"$RUN/users.acl"
printf 'aclfile %s\nmasteruser default\nmasterauth "%s"\n' "$RUN/users.acl" \
  "$(printf %s "$password" | sed 's/[\\"]/\\&/g')" >"$RUN/auth.conf"

meet() {
  for node in $NODES; do
    address=$(getent ahosts "$node" | awk '{ print $1; exit }')
    [ -n "$address" ] && [ "$address" != "$NODE_IP" ] || continue
    cli cluster nodes | grep -q " $address:$PORT@.* connected" || cli cluster meet "$address" "$PORT" >/dev/null
  done
}
cli() { REDISCLI_AUTH=$password valkey-cli -h "$NODE_IP" -p "$PORT" "$@" 2>&1; }
(set +e; while sleep 2; do meet; done) &

# A master that comes back before its replica has its place is empty, and the replica copies that: the others
# need cluster-node-timeout to miss it, and up to three seconds to elect.
[ ! -s /data/nodes.conf ] || sleep 6
exec valkey-server "$ETC/valkey.conf" --include "$RUN/auth.conf" --port "$PORT" \
  --maxmemory "$MAX_MEMORY" --cluster-announce-ip "$NODE_IP"
