#!/usr/bin/env bash
# For `make cluster-test`: starts a cluster with the images of the release, installs the chart in it, and takes it down in all
# cases. With KIND=1 it is a cluster of kind, and images that are not of the release come from their registries. Else it is
# that of up.sh. Needs bin/, dist/ and .tools/.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$PWD/.run/cluster

# What up.sh needs and does not find.
missing() {
  if [ "$(uname)" != Linux ] || [ "$(id -u)" != 0 ]; then echo "root on Linux"; return; fi
  for program in containerd runc nft iptables ipset conntrack busybox openssl ip getent; do
    command -v $program >/dev/null || echo "the program $program"
  done
  [ -x /usr/lib/cni/bridge ] || echo "/usr/lib/cni (containernetworking-plugins)"
  [ -w /sys/fs/cgroup/cpuset/cpuset.cpus ] || echo "cgroup v1"
  unshare --net true 2>/dev/null || echo "network namespaces"
}

# The names of the images that are not of the release: one image of ours has all of them.
names() { sed -n "s/^ARG ENVOY=/docker.io\//p" Dockerfile; sed -n 's/^  image: \(valkey.*\)/docker.io\/\1/p' deploy/chart/values.yaml; }

up() {
  mkdir -p "$dir"
  if [ -n "${KIND:-}" ]; then
    kind create cluster --name weir-test --kubeconfig "$dir/config" --wait 3m \
      --config <(printf '%s\n' 'kind: Cluster' 'apiVersion: kind.x-k8s.io/v1alpha4' 'nodes: [{ role: control-plane }, { role: worker }, { role: worker }]')
    for node in weir-test-worker weir-test-worker2; do
      for image in weir weir-regional weir-global; do
        docker exec -i $node ctr -n k8s.io images import --base-name "registry.example/$image" - <"$(echo dist/"$image"_[0-9]*_oci.tar)"
      done
    done
    return
  fi
  test/cluster/build.sh
  test/cluster/image.sh "$dir/tools.tar"
  names >"$dir/names"
  test/cluster/up.sh "$dir"
  inside=(nsenter --net=/run/netns/weir-cluster)
}
down() {
  if [ -n "${KIND:-}" ]; then kind delete cluster --name weir-test >/dev/null 2>&1 || true; fi
  test/cluster/down.sh "$dir"
}

if [ -z "${KIND:-}" ]; then
  why=$(missing | paste -sd, | sed 's/,/, /g')
  if [ -n "$why" ]; then
    echo "NOT RUN: make cluster-test: missing: $why"
    exit 0
  fi
fi
trap down EXIT
trap 'exit 130' INT TERM HUP
down # what a killed run left
inside=()
up
started=$SECONDS
rm -f .run/figures.txt
status=0
WEIR_CLUSTER=1 WEIR_FIGURES=$PWD/.run/figures.txt KUBECONFIG=$dir/config \
  go test -json -count=1 -timeout 20m ${inside:+-exec "${inside[*]}"} ./test/cluster | tee .run/cluster.json | .tools/tally || status=1
cat .run/figures.txt 2>/dev/null || true
echo "cluster: up in $started s, tested in $((SECONDS - started)) s"
exit "$status"
