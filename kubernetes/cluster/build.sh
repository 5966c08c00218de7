#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh: makes the parts of a Kubernetes cluster that are not of this repository; prints their folder. Kubernetes is
# built from its Go module, etcd, containerd, runc and the CNI plugins are Debian 13's packages, and so is an image for pods.
# The result stays in $CLUSTER_CACHE under a hash of the files it was made from, so that a second call only prints.
# Needs root.
#
#   CLUSTER_CACHE   where to keep the result (~/.cache/ramjet-cluster)
#   CLUSTER_MIRROR  the Debian mirror (the one that this machine's apt uses)
set -euo pipefail
version=1.37.2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CLUSTER_CACHE:-$HOME/.cache/ramjet-cluster}
parts=$cache/$(cat "$here/build.sh" "$here/image.sh" | sha256sum | cut -c 1-16)

say() { echo "cluster: $*" >&2; }

[[ $EUID == 0 ]] || { say "needs root"; exit 4; }
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two callers at once: the second finds what the first has made
if [[ -d $parts ]]; then
  echo "$parts"
  exit 0
fi

missing=()
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
command -v ip >/dev/null || missing+=(iproute2)
[[ -f /usr/share/keyrings/debian-archive-trixie-stable.gpg ]] || missing+=(debian-archive-keyring)
if ((${#missing[@]})); then
  say "installing ${missing[*]}"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" >&2
fi
mirror=$("$here/../../interop/mirror.sh" CLUSTER_MIRROR)

find "$cache" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
mkdir out out/bin out/images build pause

debian() { # FOLDER PACKAGES
  say "unpacking Debian 13: $2"
  mmdebstrap --quiet --mode=root --variant=essential --include="$2" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' trixie "$1" "deb $mirror trixie main" >&2
}
debian out/node containerd,runc,etcd-server,containernetworking-plugins,iproute2,mount,openssl
debian pod ibverbs-utils,perftest,iproute2
"$here/image.sh" pod localhost/perftest:1 >out/images/perftest.tar

cat >pause/main.go <<'GO'
// Command pause holds a pod's namespaces until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
GO
CGO_ENABLED=0 go build -o pause/root/pause pause/main.go
"$here/image.sh" pause/root localhost/pause:1 /pause >out/images/pause.tar

# Modules that Kubernetes' own module takes from its folder staging are modules of the same release, v0.x for v1.x.
say "building Kubernetes $version"
cd build
module=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
printf 'module build.invalid/kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version" >go.mod
sed -nE "s/^\s*(k8s\.io\/[a-z-]+) => \.\/staging.*/\t\1 => \1 v0.${version#*.}/p" "$module" >>go.mod
echo ')' >>go.mod
stamp=k8s.io/component-base/version
for program in kubelet kube-apiserver kube-scheduler kube-controller-manager kubectl; do
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=37" \
    -o ../out/bin/ "k8s.io/kubernetes/cmd/$program" >&2
done
cd ..
mv out "$parts"
echo "$parts"
