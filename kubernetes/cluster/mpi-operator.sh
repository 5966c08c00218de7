#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mpi-operator.sh PARTS: writes the MPI Operator into a folder of build.sh, from its Go module: the manifest of its
# release, the image that the manifest names, and that of deploy/examples/mpi.yaml, made as the operator's Dockerfiles
# make it. Beside that image's program is ring, whose transfers the tests watch. Needs root.
set -euo pipefail
version=0.8.2
parts=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mirror=$("$here/../../interop/mirror.sh" CLUSTER_MIRROR)
folder=$(mktemp -d "${TMPDIR:-/tmp}/ramjet-mpi-operator.XXXXXX")
trap 'rm -rf --one-file-system "$folder"' EXIT
chmod 755 "$folder"

echo "cluster: building the MPI Operator $version"
module=$(go mod download -json "github.com/kubeflow/mpi-operator@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
CGO_ENABLED=0 go build -C "$module" -trimpath -ldflags='-s -w' -o "$folder/operator/opt/mpi-operator" ./cmd/mpi-operator
"$here/image.sh" "$folder/operator" "docker.io/mpioperator/mpi-operator:$version" /opt/mpi-operator >"$parts/images/mpi-operator.tar"

debian() { # FOLDER PACKAGES
  mmdebstrap --quiet --mode=root --variant=essential --include="$2" --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' trixie "$1" "deb $mirror trixie main"
}
debian "$folder/builder" g++,libopenmpi-dev
cp "$module/examples/v2beta1/pi/pi.cc" "$here/ring.cc" "$folder/builder"
debian "$folder/root" openmpi-bin,openssh-client,openssh-server
# SSH at a port that an ordinary user may listen on, with keys that the operator mounts.
chroot "$folder/root" useradd --create-home --uid 1000 mpiuser
mkdir -p "$folder/root/run/sshd"
printf 'Host *\n  Port 2222\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n' >"$folder/root/etc/ssh/ssh_config.d/mpi.conf"
printf 'Port 2222\nStrictModes no\n' >"$folder/root/etc/ssh/sshd_config.d/mpi.conf"
install -m 644 "$module/build/base/sshd_config" "$folder/root/home/mpiuser/.sshd_config"
echo 'Port 2222' >>"$folder/root/home/mpiuser/.sshd_config"
for program in pi ring; do
  chroot "$folder/builder" mpic++ -O2 "/$program.cc" -o "/$program"
  mv "$folder/builder/$program" "$folder/root/home/mpiuser/$program"
done
"$here/image.sh" "$folder/root" "docker.io/mpioperator/mpi-pi:v$version-openmpi" >"$parts/images/mpi-pi.tar"

install -m 644 "$module/deploy/v2beta1/mpi-operator.yaml" "$parts/mpi-operator.yaml" # last: run.sh sees by it that all is there
