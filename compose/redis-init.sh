#!/bin/sh
# Makes a Redis Cluster of the nodes SUBNET.n, or adds REPLICAS to it; what is there stays. `up`
# runs it each time.
set -eu
first="$SUBNET.${NODES%% *}"

healthy() { redis-cli -h "$first" cluster info | grep -q cluster_state:ok; }

if [ -z "${REPLICAS:-}" ]; then
  healthy && exit 0
  addresses=
  for n in $NODES; do addresses="$addresses $SUBNET.$n:6379"; done
  redis-cli --cluster create $addresses --cluster-replicas 0 --cluster-yes
  for n in $NODES; do
    until redis-cli -h "$SUBNET.$n" cluster info | grep -q cluster_state:ok; do sleep 0.2; done
  done
  exit 0
fi

set -- $NODES
for n in $REPLICAS; do
  master=$(redis-cli -h "$SUBNET.$1" cluster myid)
  shift
  redis-cli -h "$SUBNET.$n" cluster nodes | grep myself | grep -q "slave $master" && continue
  redis-cli --cluster add-node "$SUBNET.$n:6379" "$first:6379" --cluster-slave --cluster-master-id "$master"
done
