#!/usr/bin/env bash
# node.sh N DIR: a node of up.sh, as the first process of its namespaces. All of it ends with this process.
set -euo pipefail
n=$1 dir=$2 node=$2/node$1
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$root/.tools/kubernetes release=$root/dist

# What programs of the node write to the machine goes to folders of the node, and to memory.
mount --make-rprivate /
mkdir -p "$node/lib" "$node/cni"
mount --bind "$node/lib" /var/lib
for place in /run /var/log; do mount -t tmpfs node $place; done
# The kubelet sets these for the whole machine.
for setting in kernel/panic=10 kernel/panic_on_oops=1 vm/overcommit_memory=1; do
  echo "${setting#*=}" >"/run/$(basename "${setting%=*}")"
  mount --bind "/run/$(basename "${setting%=*}")" "/proc/sys/${setting%=*}"
done
mount --make-rshared /
for hierarchy in /sys/fs/cgroup/*/; do mkdir -p "$hierarchy/weir-node$n"; done
for set in cpus mems; do cat /sys/fs/cgroup/cpuset/cpuset.$set >"/sys/fs/cgroup/cpuset/weir-node$n/cpuset.$set"; done

cat >"$node/cni/10-pods.conflist" <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.78.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >"$node/containerd.toml" <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "cluster.test/tools:1"
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node/cni"
END
: >"$node/resolv.conf"
cat >"$node/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /weir-node$n
authentication: { anonymous: { enabled: false }, webhook: { enabled: false }, x509: { clientCAFile: $dir/ca.crt } }
authorization: { mode: AlwaysAllow }
tlsCertFile: $dir/tls.crt
tlsPrivateKeyFile: $dir/tls.key
clusterDNS: [10.79.0.10]
clusterDomain: cluster.local
resolvConf: $node/resolv.conf
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: { memory.available: 200Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1% }
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
END

# start NAME COMMAND...
start() { "${@:2}" >"$node/$1.log" 2>&1 & }
start containerd containerd --config "$node/containerd.toml"
until ctr version >/dev/null 2>&1; do sleep 0.2; done
images() { ctr --namespace k8s.io images "$@" >>"$node/images.log"; }
images import "$dir/tools.tar"
while read -r name; do images tag cluster.test/tools:1 "$name"; done <"$dir/names"
for image in weir weir-regional weir-global; do
  images import --base-name "registry.example/$image" "$(echo "$release/$image"_[0-9]*_oci.tar)"
done
start kubelet "$bin/kubelet" --config "$node/kubelet.yaml" --kubeconfig "$dir/config" --hostname-override "node$n" \
  --node-ip "10.77.0.1$n" --node-labels "topology.kubernetes.io/zone=zone$n"
start proxy "$bin/kube-proxy" --kubeconfig "$dir/config" --hostname-override "node$n" --bind-address "10.77.0.1$n" \
  --proxy-mode nftables --cluster-cidr 10.78.0.0/16 \
  --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
until "$bin/kubectl" --kubeconfig "$dir/config" get node "node$n" >/dev/null 2>&1; do sleep 0.2; done # the router asks once
start router "$bin/kube-router" --run-router=false --run-service-proxy=false --run-loadbalancer=false --run-firewall=true \
  --kubeconfig "$dir/config" --hostname-override "node$n" --service-cluster-ip-range 10.79.0.0/16
while :; do wait -n || true; sleep 1; done
