#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# node.sh PARTS WORK CGROUP PROGRAM...: makes a Kubernetes node with its control plane of the namespaces in which it runs,
# and runs the program in it. run.sh starts it in new namespaces of mounts, processes, network, names and IPC.
# Everything ends with it.
set -euo pipefail
parts=$1 work=$2 cgroup=$3
shift 3

# The root folder is Debian's, with a layer on it for what is written. The folders on which containerd stacks layers
# of its own are folders of WORK: overlayfs does not stack twice.
mount --make-rprivate /
mkdir -p "$work"/{upper,overlay,root,containerd,kubelet,pods,state,tree}
mount -t overlay overlay -o "lowerdir=$parts/node,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
cd "$work/root"
mkdir -p state tree parts old var/lib/{containerd,kubelet,ramjet} var/log/pods etc/cni/net.d etc/containerd
mount --bind "$work/state" state
mount --bind "$work/containerd" var/lib/containerd
mount --bind "$work/kubelet" var/lib/kubelet
mount --bind "$work/pods" var/log/pods
mount --rbind "$work/tree" tree
mount --bind "$parts" parts
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
# The kubelet sets these of the whole machine. It sees them as it wants them, and the machine keeps its own.
tunable() { echo "$2" >"state/${1##*/}"; mount --bind "state/${1##*/}" "proc/sys/$1"; }
tunable vm/overcommit_memory 1
tunable vm/panic_on_oom 0
tunable kernel/panic 10
tunable kernel/panic_on_oops 1
tunable kernel/keys/root_maxkeys 1000000
tunable kernel/keys/root_maxbytes 25000000
pivot_root . old
cd /
umount -l /old
mount --make-rshared /
export PATH=/parts/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/state KUBECONFIG=/state/admin.conf CGROUP=$cgroup
unset TMPDIR # a folder of the machine
: >/etc/resolv.conf

# One node, which is its control plane, too. The address of the API server's service is the node's own, so that pods
# reach it without a proxy. So it is with the names' server.
hostname node
echo node >/etc/hostname
ip link set lo up
ip link add node0 type bridge
ip address add 192.0.2.1/24 dev node0
ip address add 10.96.0.1/32 dev node0
ip address add 10.96.0.10/32 dev node0
ip address add fd00:2::1/64 dev node0 nodad
ip address add fd00:96::a/128 dev node0 nodad
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward

# network FILE NAME RANGES ROUTES: a network for pods. Their MTU is that of networks which put packets into others.
network() {
  cat >"$1" <<CNI
{"cniVersion": "1.0.0", "name": "$2", "plugins": [
  {"type": "bridge", "bridge": "$2", "isGateway": true, "mtu": 1450,
   "ipam": {"type": "host-local", "ranges": [$3], "routes": [$4]}},
  {"type": "loopback"}]}
CNI
}
# Pods have addresses of both families. Those of the runtime class ipv6 have IPv6 alone.
mkdir -p etc/cni/ipv6.d
network /etc/cni/net.d/10-pods.conflist pods0 '[{"subnet": "10.244.0.0/24"}], [{"subnet": "fd00:244::/64"}]' '{"dst": "0.0.0.0/0"}, {"dst": "::/0"}'
network /etc/cni/ipv6.d/10-ipv6.conflist pods6 '[{"subnet": "fd00:246::/64"}]' '{"dst": "::/0"}'
cat >/etc/containerd/config.toml <<TOML
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  enable_cdi = true
  cdi_spec_dirs = ["/var/run/cdi"]
  disable_apparmor = true
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE, as in some containers, no process gets a lower one
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.ipv6]
    runtime_type = "io.containerd.runc.v2"
    cni_conf_dir = "/etc/cni/ipv6.d"
TOML
cat >/state/Corefile <<COREFILE
. {
  bind 10.96.0.10 fd00:96::a
  errors
  kubernetes cluster.local {
    kubeconfig /state/admin.conf
  }
}
COREFILE
cat >/state/kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
clusterDNS: [10.96.0.10, 'fd00:96::a']
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
# A developer's disk may be as full as it is.
evictionHard: {memory.available: 50Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
resolvConf: /etc/resolv.conf
YAML

openssl genrsa -out /state/accounts.key 2048 2>/dev/null
declare -A users=([admin]=system:masters [system:node:node]=system:nodes [system:kube-scheduler]='' [system:kube-controller-manager]='')
for user in "${!users[@]}"; do
  token=$(openssl rand -hex 16)
  echo "$token,$user,$user,\"${users[$user]}\"" >>/state/tokens.csv
  cat >"/state/${user##*:}.conf" <<CONF
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://10.96.0.1:443', certificate-authority: /state/apiserver.crt}}]
users: [{name: u, user: {token: $token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
CONF
done

start() { "$@" >"/state/${1##*/}.log" 2>&1 & }
start etcd --data-dir /state/etcd --unsafe-no-fsync
start containerd
start kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir /state --secure-port 443 \
  --advertise-address 192.0.2.1 --service-cluster-ip-range 10.96.0.0/24,fd00:96::/112 --authorization-mode Node,RBAC \
  --token-auth-file /state/tokens.csv --kubelet-preferred-address-types InternalIP --allow-privileged --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file /state/accounts.key --service-account-signing-key-file /state/accounts.key
for _ in {1..120}; do
  kubectl get --raw /readyz >/dev/null 2>&1 && break
  sleep 1
done
start kube-scheduler --kubeconfig /state/kube-scheduler.conf --leader-elect=false
start kube-controller-manager --kubeconfig /state/kube-controller-manager.conf --leader-elect=false \
  --service-cluster-ip-range 10.96.0.0/24,fd00:96::/112 \
  --use-service-account-credentials --root-ca-file /state/apiserver.crt \
  --service-account-private-key-file /state/accounts.key
start coredns -conf /state/Corefile
for image in {/parts,/tree}/images/*.tar; do
  ctr -n k8s.io images import "$image" >>/state/images.log 2>&1
done
"$@"
