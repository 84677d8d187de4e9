#!/usr/bin/env bash
# up.sh DIR: starts a Kubernetes cluster of two nodes, whose files and logs are in DIR; its kubeconfig is DIR/config. The
# control plane is in the network namespace weir-cluster, with the only way to the nodes; there is none to other networks.
# The programs are those of build.sh, containerd and the network plugins are Debian's. down.sh DIR ends it.
set -euo pipefail
cd "$(dirname "$0")"
dir=$1 bin=$(cd ../../.tools/kubernetes && pwd)
mkdir -p "$dir"

# One authority and one certificate, of an administrator: servers and clients share it, as the chart needs no rights in Kubernetes.
names=DNS:localhost,DNS:kubernetes.default.svc
for address in 127.0.0.1 10.77.0.1 10.77.0.11 10.77.0.12 10.79.0.1; do names+=,IP:$address; done
key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${key[@]}" -subj /CN=cluster -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
openssl req "${key[@]}" -subj /O=system:masters/CN=admin -keyout "$dir/tls.key" -out "$dir/tls.csr" 2>/dev/null
openssl x509 -req -in "$dir/tls.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -out "$dir/tls.crt" \
  -extfile <(echo "extendedKeyUsage=clientAuth,serverAuth"; echo "subjectAltName=$names") 2>/dev/null
openssl pkey -in "$dir/tls.key" -pubout -out "$dir/tls.pub"
cat >"$dir/config" <<END
apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: "https://10.77.0.1:6443", certificate-authority: $dir/ca.crt } }]
users: [{ name: admin, user: { client-certificate: $dir/tls.crt, client-key: $dir/tls.key } }]
contexts: [{ name: c, context: { cluster: c, user: admin } }]
current-context: c
END

# The networks of nodes and pods: a bridge, and a route to the pods of each node.
ip netns add weir-cluster
ip -n weir-cluster link set lo up
ip -n weir-cluster link add br0 type bridge
ip -n weir-cluster addr add 10.77.0.1/24 dev br0
ip -n weir-cluster link set br0 up
for n in 1 2; do
  ip netns add weir-node$n
  ip -n weir-node$n link set lo up
  ip -n weir-cluster link add node$n type veth peer name eth0 netns weir-node$n
  ip -n weir-cluster link set node$n master br0 up
  ip -n weir-node$n addr add 10.77.0.1$n/24 dev eth0
  ip -n weir-node$n link set eth0 up
  ip -n weir-node$n route add default via 10.77.0.1
  ip -n weir-node$n route add 10.78.$((3 - n)).0/24 via 10.77.0.1$((3 - n))
  ip -n weir-cluster route add 10.78.$n.0/24 via 10.77.0.1$n
done
for space in weir-cluster weir-node1 weir-node2; do nsenter --net=/run/netns/$space sysctl -qw net.ipv4.ip_forward=1; done

# start NAME COMMAND...: in the control plane's network.
start() {
  setsid nsenter --net=/run/netns/weir-cluster "${@:2}" >"$dir/$1.log" 2>&1 </dev/null &
  echo $! >>"$dir/pids"
}
kubectl() { nsenter --net=/run/netns/weir-cluster "$bin/kubectl" --kubeconfig "$dir/config" "$@"; }

start etcd "$bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn
start apiserver "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --advertise-address 10.77.0.1 \
  --service-cluster-ip-range 10.79.0.0/16 --authorization-mode RBAC --client-ca-file "$dir/ca.crt" \
  --tls-cert-file "$dir/tls.crt" --tls-private-key-file "$dir/tls.key" --kubelet-preferred-address-types InternalIP \
  --kubelet-client-certificate "$dir/tls.crt" --kubelet-client-key "$dir/tls.key" --kubelet-certificate-authority "$dir/ca.crt" \
  --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file "$dir/tls.pub" --service-account-signing-key-file "$dir/tls.key"
timeout 120 bash -c "until nsenter --net=/run/netns/weir-cluster '$bin/kubectl' --kubeconfig '$dir/config' get --raw /readyz; do sleep 0.3; done" >/dev/null 2>&1 ||
  { tail "$dir/apiserver.log"; exit 1; }
start controllers "$bin/kube-controller-manager" --kubeconfig "$dir/config" --root-ca-file "$dir/ca.crt" --leader-elect=false \
  --service-account-private-key-file "$dir/tls.key" --controllers '*,-node-ipam-controller' --node-monitor-grace-period 20s
start scheduler "$bin/kube-scheduler" --kubeconfig "$dir/config" --leader-elect=false

for n in 1 2; do
  mkdir -p "$dir/node$n"
  setsid nsenter --net=/run/netns/weir-node$n unshare --mount --pid --fork --kill-child --mount-proc \
    ./node.sh "$n" "$dir" >"$dir/node$n/node.log" 2>&1 </dev/null &
  echo $! >"$dir/node$n/pid"
done
kubectl apply -f cluster.yaml >/dev/null
for volume in {1..8}; do
  for n in 1 2; do
    mkdir -p "$dir/node$n/volumes/$volume"
    cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: { name: node$n-$volume }
spec:
  capacity: { storage: 2Gi }
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: { path: $dir/node$n/volumes/$volume }
  nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: kubernetes.io/hostname, operator: In, values: [node$n] }] }] } }
END
  done
done | kubectl apply -f - >/dev/null
timeout 120 bash -c "until nsenter --net=/run/netns/weir-cluster '$bin/kubectl' --kubeconfig '$dir/config' wait --for condition=Ready node/node1 node/node2 --timeout 100s; do sleep 0.3; done" >/dev/null 2>&1 ||
  { tail "$dir"/node?/*.log; exit 1; }
echo "the nodes were ready after $SECONDS s"
