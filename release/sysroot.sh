#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sysroot.sh DIR ARCHITECTURE: makes DIR/root, the headers and libraries of Debian 11's glibc 2.31 and this machine's
# headers of rdma-core, and DIR/cc, a compiler for them: what it links runs on that glibc and later ones.
#
# Needs what release/packages.txt names, and a network. SYSROOT_MIRROR is the Debian mirror; without it the one that
# this machine's apt uses.
set -euo pipefail
[[ $# == 2 && -n $1 ]] || { echo "usage: $0 DIR ARCHITECTURE" >&2; exit 2; }
case $2 in
amd64) triple=x86_64-linux-gnu ;;
arm64) triple=aarch64-linux-gnu ;;
*) echo "$0: architecture $2: amd64 or arm64" >&2; exit 2 ;;
esac
mkdir -p "$1"
dir=$(cd "$1" && pwd)
root=$dir/root
mirror=$("$(dirname "${BASH_SOURCE[0]}")/../interop/mirror.sh" SYSROOT_MIRROR)
rm -rf "$root"
mmdebstrap --quiet --architectures="$2" --variant=extract --include=libc6-dev bullseye "$root" "deb $mirror bullseye main"

# The linker follows absolute links out of the root.
(cd "$root" && find lib* usr/lib -type l -lname '/*' -print0 | while IFS= read -rd '' link; do
	ln -sfn "$(realpath -ms --relative-to="$(dirname "$link")" ".$(readlink "$link")")" "$link"
done)
cp -r /usr/include/infiniband /usr/include/rdma "$root/usr/include"

# The compiler looks into folders of its own after those that -B and -L name, whatever the root.
cat >"$dir/cc" <<EOF
#!/bin/sh
exec $triple-gcc --sysroot='$root' -B'$root/usr/lib/$triple' -L'$root/usr/lib/$triple' -L'$root/lib/$triple' "\$@"
EOF
chmod +x "$dir/cc"
