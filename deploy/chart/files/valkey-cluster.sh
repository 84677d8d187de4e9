#!/bin/sh
# Makes a cluster of the nodes, which have met or will (valkey-node.sh): three masters, of those that are
# there, and the others follow a master each. What is there stays, so this may run again, and after a run
# that was cut. NODES, PORT, SECRET: as there.
set -eu
REDISCLI_AUTH=$(cat "$SECRET/password")
export REDISCLI_AUTH
set -- $NODES
first=$1 total=$#

cli() { at=$1; shift; valkey-cli -h "$at" -p "$PORT" "$@" 2>/dev/null; }
field() { cli "$1" cluster info | tr -d '\r' | sed -n "s/^$2://p"; }
until_is() { until [ "$(field "$1" "$2")" "$3" "$4" ]; do echo "$1: waiting for $2 $3 $4"; sleep 2; done; }

# One that has lost its volume is known twice.
for node in $NODES; do until_is "$node" cluster_known_nodes -ge "$total" 2>/dev/null; done

# Each call gives a master all of its slots, or none if somebody has one of them.
if [ "$(field "$first" cluster_slots_assigned)" != 16384 ]; then
  cli "$1" cluster addslotsrange 0 5460 || true
  cli "$2" cluster addslotsrange 5461 10922 || true
  cli "$3" cluster addslotsrange 10923 16383 || true
fi
for node in $NODES; do until_is "$node" cluster_slots_assigned = 16384; done

# A node has its place when it has slots or a master.
placed() { cli "$1" cluster nodes | grep myself | grep -q -e slave -e 'connected [0-9]'; }
# The master that has the fewest replicas.
neediest() {
  cli "$first" cluster nodes | awk '
    $3 ~ /master/ && $3 !~ /fail/ && NF > 8 { n[$1] += 0 }
    $3 ~ /slave/ && $3 !~ /fail/ { n[$4]++; follows[$4] }
    $3 ~ /master/ && NF > 8 { has[$1] }
    END { for (id in has) if (id in n && (best == "" || n[id] < n[best])) best = id; print best }'
}
for node in $NODES; do
  until placed "$node"; do
    cli "$node" cluster replicate "$(neediest)" || true
    sleep 1
  done
done
# cluster_state is ok without all masters, too.
for node in $NODES; do until_is "$node" cluster_slots_ok = 16384; done
echo "the cluster serves all slots"
