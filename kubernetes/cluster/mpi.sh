#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mpi.sh FILE: writes the image localhost/mpi:1, which has the packages of deploy/examples/infiniband*.yaml. It is
# apart from build.sh, so that other packages here do not build Kubernetes again. Needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mirror=$("$here/../../interop/mirror.sh" CLUSTER_MIRROR)
folder=$(mktemp -d "${TMPDIR:-/tmp}/ramjet-mpi.XXXXXX")
trap 'rm -rf --one-file-system "$folder" "$1.new"' EXIT
chmod 755 "$folder"
mmdebstrap --quiet --mode=root --variant=essential --include=libumad2sim0,openmpi-bin,opensm,openssh-client,openssh-server,perftest,python3-mpi4py \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' trixie "$folder/root" "deb $mirror trixie main"
"$here/image.sh" "$folder/root" localhost/mpi:1 >"$1.new"
mv "$1.new" "$1"
