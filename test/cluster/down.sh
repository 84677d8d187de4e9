#!/usr/bin/env bash
# down.sh DIR: ends the cluster of up.sh, also one that was killed while it started, and removes what it made.
set -uo pipefail
dir=$1
for pid in $(cat "$dir"/node?/pid "$dir/pids" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
sleep 1
for n in 1 2; do
  for hierarchy in /sys/fs/cgroup/*/weir-node$n; do
    [ ! -d "$hierarchy" ] || find "$hierarchy" -depth -type d -exec rmdir {} + 2>/dev/null
  done
done
for space in weir-node1 weir-node2 weir-cluster; do ip netns del $space 2>/dev/null; done
rm -rf "$dir"
