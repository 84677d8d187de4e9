#!/bin/sh
# Makes a Redis Cluster of the nodes SUBNET.n, or gives its masters REPLICAS, in the same order;
# what is there stays. `up` runs it each time.
set -eu
first="$SUBNET.${NODES%% *}"

healthy() { valkey-cli -h "$first" cluster info | grep -q cluster_state:ok; }

if [ -z "${REPLICAS:-}" ]; then
  healthy && exit 0
  addresses=
  for n in $NODES; do addresses="$addresses $SUBNET.$n:6379"; done
  valkey-cli --cluster create $addresses --cluster-replicas 0 --cluster-yes
  for n in $NODES; do
    until valkey-cli -h "$SUBNET.$n" cluster info | grep -q cluster_state:ok; do sleep 0.2; done
  done
  exit 0
fi

# A node that has a master, or slots since its master was lost, has its place.
placed() {
  valkey-cli -h "$1" cluster nodes | grep myself | grep -q -e slave -e 'connected [0-9]'
}

set -- $NODES
for n in $REPLICAS; do
  node="$SUBNET.$n" master="$SUBNET.$1"
  shift
  id=$(valkey-cli -h "$master" cluster myid)
  until placed "$node"; do
    valkey-cli -h "$node" cluster meet "$master" 6379 >/dev/null || true
    sleep 1 # it rejects a master that it has not met yet
    valkey-cli -h "$node" cluster replicate "$id" >/dev/null || true
  done
done
for n in $REPLICAS; do
  until valkey-cli -h "$SUBNET.$n" info replication | grep -q -e master_link_status:up -e role:master; do sleep 0.2; done
done
