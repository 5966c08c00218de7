#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: Ramjet in a Kubernetes cluster of one node: a real API server, scheduler, kubelet, containerd and runc, in
# namespaces of their own, which go when it ends. Needs root, and Linux with overlayfs, network namespaces and bridges.
#
#   RAMJET_CLUSTER_IMAGE  an archive of ramjet-kubelet's image, as docker and podman save it, under the name that
#                         deploy/ramjet.yaml has, instead of one of this checkout
#   RAMJET_CLUSTER_LOGS   a folder for the programs' logs, to keep them
#   RAMJET_CLUSTER_SHELL  not empty: a shell on the node instead of the tests
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
[[ $EUID == 0 ]] || { echo "cluster: needs root" >&2; exit 4; }

[[ -z ${RAMJET_CLUSTER_IMAGE-} ]] || RAMJET_CLUSTER_IMAGE=$(realpath -e "$RAMJET_CLUSTER_IMAGE")
parts=$("$here/build.sh")
work=$(mktemp -d "${TMPDIR:-/tmp}/ramjet-cluster.XXXXXX")
cgroup=${work##*/}
cgroup=${cgroup//./-}
clean() {
  if [[ -n ${RAMJET_CLUSTER_LOGS-} ]]; then
    mkdir -p "$RAMJET_CLUSTER_LOGS"
    cp "$work"/state/*.log "$RAMJET_CLUSTER_LOGS" || true
  fi
  # A cgroup goes when its last process has gone, which takes a moment after it was killed.
  for _ in {1..20}; do
    find /sys/fs/cgroup -depth -type d -path "*/$cgroup*" -exec rmdir {} + 2>/dev/null || true
    [[ -n $(find /sys/fs/cgroup -type d -name "$cgroup") ]] || break
    sleep 0.5
  done
  rm -rf --one-file-system "$work"
}
trap clean EXIT

mkdir -p "$work/tree/deploy" "$work/tree/images" "$work/image/bin" "$work/image/opt/ramjet/bin"
cd "$repository"
if [[ -n ${RAMJET_CLUSTER_IMAGE-} ]]; then
  cp "$RAMJET_CLUSTER_IMAGE" "$work/tree/images/ramjet-kubelet.tar"
else
  # The image of deploy/ramjet.yaml, of this checkout.
  echo "cluster: building ramjet-kubelet's image" >&2
  CGO_ENABLED=0 go build -tags nokernel -o "$work/image/opt/ramjet/bin/ramjet" ./cmd/ramjet
  CGO_ENABLED=1 ./cabi/build.sh "$work/image/opt/ramjet/lib" >&2
  (cd kubernetes && CGO_ENABLED=0 go build -o "$work/image/bin/ramjet-kubelet" ./cmd/ramjet-kubelet)
  image=$(sed -n 's/^ *image: *\(.*ramjet-kubelet:.*\)/\1/p' kubernetes/deploy/ramjet.yaml)
  "$here/image.sh" "$work/image" "$image" /bin/ramjet-kubelet >"$work/tree/images/ramjet-kubelet.tar"
fi
mkdir "$work/citest"
CGO_ENABLED=0 go test -c -o "$work/citest/citest" ./examples/citest # of deploy/examples/go-test.yaml
"$here/image.sh" "$work/citest" localhost/citest:1 >"$work/tree/images/citest.tar"
cp -r kubernetes/deploy/. "$work/tree/deploy"
cp -r kubernetes/chart "$work/tree/chart"
[[ -x $parts/bin/helm ]] || CGO_ENABLED=0 GOBIN=$parts/bin go install -trimpath "helm.sh/helm/v4/cmd/helm@v4.3.2" >&2
[[ $parts/bin/coredns -nt $here/dns.sh ]] || "$here/dns.sh" "$parts/bin/coredns" >&2
mpi=$parts/images/mpi.tar
[[ $mpi -nt $here/mpi.sh ]] || "$here/mpi.sh" "$mpi" >&2
operator=$parts/mpi-operator.yaml
[[ $operator -nt $here/mpi-operator.sh && $operator -nt $here/ring.cc ]] || "$here/mpi-operator.sh" "$parts" >&2
cp "$here/node.sh" "$here/tests.sh" "$here/infiniband.sh" "$here/mpijob.sh" "$here/jobs.sh" "$work/tree"

# A control group for the node's pods.
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
  echo "+cpu +cpuset +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
  mkdir "/sys/fs/cgroup/$cgroup"
else
  for controller in /sys/fs/cgroup/*/; do
    mkdir "$controller$cgroup"
    for file in cpuset.cpus cpuset.mems; do
      if [[ -e $controller$file ]]; then cat "$controller$file" >"$controller$cgroup/$file"; fi
    done
  done
fi

tests=(/tree/tests.sh)
[[ -z ${RAMJET_CLUSTER_SHELL-} ]] || tests=(bash -i)
unshare --mount --pid --fork --kill-child --net --uts --ipc "$here/node.sh" "$parts" "$work" "$cgroup" "${tests[@]}"
