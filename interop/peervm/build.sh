#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build.sh - make the peer machine's kernel, initrd and disk image; print their folder.
#
# The guest is Debian 13 on any Debian host from 12 up: its kernel is 6.12 and its
# rdma-core is recent enough for atomic write and flush. Everything comes from Debian's
# packages, and siw from the source of its kernel (siw.sh). The result stays in $PEERVM_CACHE (~/.cache/peervm) under a hash of the files
# it was made from, so that a second call only prints. Needs root.
#
#   PEERVM_CACHE   where to keep the result
#   PEERVM_MIRROR  the Debian mirror (the one that this machine's apt uses)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PEERVM_CACHE:-$HOME/.cache/peervm}
stamp=$(cat "$here/build.sh" "$here/siw.sh" "$here/init" | sha256sum | cut -c1-16)
image=$cache/$stamp

say() { echo "peervm: $*" >&2; }

[[ $EUID == 0 ]] || { say "needs root"; exit 4; }
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two callers at once: the second finds what the first has made
if [[ -f $image/manifest ]]; then
  echo "$image"
  exit 0
fi

# What the guest holds, and the modules it may load with all that they depend on.
packages=(busybox-static ibverbs-providers ibverbs-utils iproute2 kmod perftest python3-pyverbs rdmacm-utils)
# (rdma_rxe asks the crypto layer for crc32 by name, ext4 for crc32c: no dependency says so.)
root_modules=(virtio_blk ext4 crc32c_generic)
modules=(virtio_net 9p 9pnet_virtio ib_uverbs rdma_ucm rdma_rxe crc32_generic siw
  sch_netem sch_prio sch_ingress cls_u32 cls_matchall act_mirred ifb)

tools=(qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap cpio:cpio mkfs.ext4:e2fsprogs
  xz:xz-utils depmod:kmod ip:iproute2 tcpdump:tcpdump)
missing=()
for tool in "${tools[@]}"; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
[[ -f /usr/share/keyrings/debian-archive-trixie-stable.gpg ]] || missing+=(debian-archive-keyring)
if ((${#missing[@]})); then
  say "installing ${missing[*]}"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" >&2
fi

mirror=$("$here/../mirror.sh" PEERVM_MIRROR)

find "$cache" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir kernel out

say "unpacking Debian 13"
# The kernel's package is fetched beside the guest and not installed in it: no hooks to run.
# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
fetch_kernel='export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
  cd "$WORK" && apt-get -o APT::Sandbox::User=root download "$(apt-cache depends linux-image-amd64 |
    sed -n "s/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p" | head -n 1)"'
WORK=$work mmdebstrap --quiet --mode=root --variant=essential --include="${packages[*]}" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook="$fetch_kernel" trixie guest "deb $mirror trixie main" >&2

dpkg -x linux-image-*.deb kernel
[[ -e kernel/lib ]] || ln -s usr/lib kernel/lib
release=$(basename kernel/lib/modules/*)
say "building siw"
"$here/siw.sh" "$work" "$release" "$mirror"
mkdir "kernel/lib/modules/$release/updates"
mv siw.ko "kernel/lib/modules/$release/updates/"
depmod -b kernel "$release"

# Copies modules and what they depend on into folder $1, unpacked (the guest's processor
# is slow), and prints their paths there in loading order.
copy_modules() {
  local to=$1 path target
  shift
  for name; do
    modprobe -d "$work/kernel" -S "$release" --ignore-install --show-depends "$name"
  done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
    target=${path#"$work/kernel"}
    target=${target#/usr}
    target=${target%.xz}
    mkdir -p "$to$(dirname "$target")"
    case $path in
      *.xz) xz -dc "$path" >"$to$target" ;;
      *) cp "$path" "$to$target" ;;
    esac
    echo "$target"
  done
}

say "making the disk and the initrd"
copy_modules guest "${modules[@]}" >/dev/null
cp kernel/lib/modules/"$release"/modules.{order,builtin,builtin.modinfo} "guest/lib/modules/$release/"
depmod -b guest "$release"
install -m 755 "$here/init" guest/init-peer
truncate -s 1G out/disk.img
mkfs.ext4 -q -d guest out/disk.img

mkdir -p initrd
cp guest/bin/busybox initrd/busybox
copy_modules initrd "${root_modules[@]}" >initrd.order
# shellcheck disable=SC2016 # for the initrd's shell
{
  echo '#!/busybox sh'
  echo '/busybox mkdir -p /proc /sys /dev /root'
  echo '/busybox mount -t proc proc /proc'
  echo '/busybox mount -t sysfs sys /sys'
  echo '/busybox mount -t devtmpfs dev /dev'
  sed 's,^,/busybox insmod ,' initrd.order
  echo '/busybox mount -t ext4 /dev/vda /root'
  echo 'for d in dev sys proc; do /busybox mount --move /$d /root/$d; done'
  echo 'exec /busybox switch_root /root /init-peer'
} >initrd/init
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc --quiet | gzip -1) >out/initrd.gz
cp "kernel/boot/vmlinuz-$release" out/vmlinuz
{
  echo "linux $release"
  dpkg-query --admindir=guest/var/lib/dpkg -W rdma-core ibverbs-utils perftest python3-pyverbs iproute2 python3
} >out/manifest
mv out "$image"
echo "$image"
