#!/usr/bin/env bash
# Builds the programs of a cluster from their Go modules into .tools/kubernetes, each once: 11 minutes on two cores, and
# 4 GB in Go's cache. A build that was interrupted goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/../.."

kubernetes=v1.36.3 # the last that takes Debian's containerd
bin=$PWD/.tools/kubernetes
export GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0
mkdir -p "$bin"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build PROGRAM MODULE VERSION PACKAGE [FLAG...]: with the versions and checksums of the module's own go.mod. Modules that this
# takes from folders beside it have the versions of the same release.
build() {
  local dir began=$SECONDS
  if [ "$(cat "$bin/$1.version" 2>/dev/null)" = "$3" ]; then return; fi
  dir=$(go mod download -json "$2@$3" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  sed -E "s#^(\s*)(k8s.io/\S+) => \./staging/.*#\1\2 => \2 ${3/v1/v0}#; /=> \.\.?\//d" "$dir/go.mod" >"$work/go.mod"
  install -m 644 "$dir/go.sum" "$work/go.sum"
  (cd "$dir" && go build -mod=mod -modfile="$work/go.mod" -o "$bin/$1" "${@:5}" "$4")
  echo "$3" >"$bin/$1.version"
  echo "built $1 $3 in $((SECONDS - began)) s"
}

# Without its version, Helm would reject the cluster.
version=k8s.io/component-base/version
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
  build $program k8s.io/kubernetes $kubernetes ./cmd/$program \
    -ldflags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=36"
done
build etcd go.etcd.io/etcd/server/v3 v3.6.8 . -ldflags='-s -w'
# It enforces NetworkPolicies, and does nothing else here.
build kube-router github.com/cloudnativelabs/kube-router/v2 v2.1.0 ./cmd/kube-router -ldflags='-s -w'

# CoreDNS with the plugins of the Corefile in cluster.yaml, without those for clouds: a program of its own.
coredns=v1.14.7 module=github.com/coredns/coredns
if [ "$(cat "$bin/coredns.version" 2>/dev/null)" != $coredns ]; then
  mkdir "$work/dns"
  cd "$work/dns"
  dir=$(go mod download -json $module@$coredns | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  sed "s#^module .*#module dns#; \$ a require $module $coredns" "$dir/go.mod" >go.mod
  install -m 644 "$dir/go.sum" go.sum
  {
    echo 'package main'
    for plugin in cache errors health kubernetes loadbalance ready; do echo "import _ \"$module/plugin/$plugin\""; done
    echo "import \"$module/coremain\""
    echo 'func main() { coremain.Run() }'
  } >main.go
  go build -mod=mod -ldflags='-s -w' -o "$bin/coredns" .
  echo $coredns >"$bin/coredns.version"
fi
