#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# smbmodules.sh FOLDER RELEASE MIRROR - make cifs.ko and ksmbd.ko with SMB Direct, and what they depend on, in FOLDER.
#
# Debian's kernels leave SMB Direct out of both (CONFIG_CIFS_SMB_DIRECT, CONFIG_SMB_SERVER_SMBDIRECT), so they are built
# from Debian's source of the same kernel, with its compiler and headers, in a tree of their own. Two faults of cifs are
# mended, by which it waits for ever if the server dies with messages in flight: whoever waits for messages to leave is woken when
# the connection ends, as in later kernels; and a read or write that cannot be sent gives its memory region back, for which the end
# of the connection waits, while the request that has it waits for the next connection. Needs root and mmdebstrap.
set -euo pipefail
out=$1 release=$2 mirror=$3

work=$(mktemp -d "$out/smbmodules.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir debs kernel

# Kernel and headers are unpacked and not installed: as packages they want more beside them.
# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
fetch='export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
  cd "$WORK/debs" && apt-get -q -o APT::Sandbox::User=root download linux-source-6.12 "linux-image-$RELEASE" "linux-headers-$RELEASE" \
    $(apt-cache depends "linux-headers-$RELEASE" | sed -n "s/.*Depends: \(linux-\(headers\|kbuild\)-[^ ]*\).*/\1/p")'
WORK=$work RELEASE=$release mmdebstrap --quiet --mode=root --variant=essential --include=gcc-14,libc6-dev,make,libelf1t64 \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="$fetch" trixie tree "deb $mirror trixie main" >&2
for package in debs/linux-{headers,kbuild}-*.deb; do
  dpkg -x "$package" tree
done

mkdir tree/source
dpkg --fsys-tarfile debs/linux-source-*.deb | tar -xOf - --wildcards '*/linux-source-*.tar.xz' | xz -dc -T0 |
  tar -xf - -C tree/source --strip-components=1 --wildcards 'linux-source-*/fs/smb/*' 'linux-source-*/fs/nls/*' \
    'linux-source-*/scripts/asn1_compiler.c'
client=tree/source/fs/smb/client/smbdirect.c
sed -Ei 's/^(\t+)(wake_up_interruptible_all\(&info->wait_send_queue\)|rdma_disconnect\(sc->rdma.cm_id\));$/&\n\1wake_up_all(\&info->wait_send_pending);\n\1wake_up_all(\&info->wait_post_send);/' "$client"
requests=tree/source/fs/smb/client/smb2pdu.c
for data in read:rdata write:wdata; do
  sed -i "s/^async_${data%:*}v_out:\$/&\n\tif (rc \&\& ${data#*:}->mr) {\n\t\tsmbd_deregister_mr(${data#*:}->mr);\n\t\t${data#*:}->mr = NULL;\n\t}/" "$requests"
done
if [[ $(grep -c 'wake_up_all(&info->wait_send_pending)' "$client") != 4 || $(grep -A1 '^async_\(read\|write\)v_out:$' "$requests" | grep -c 'if (rc && .data->mr) {') != 2 ]]; then
  echo "smbmodules.sh: the source has changed: see whether the faults are still there" >&2
  exit 1
fi

# Debian's package of the kernel's build tools lacks the compiler of ASN.1.
headers=/usr/src/linux-headers-$release
scripts=$(chroot tree readlink -f "$headers/scripts")
chroot tree gcc-14 -O2 -I"${headers%-amd64}-common/include" -o "$scripts/asn1_compiler" /source/scripts/asn1_compiler.c
# No type information for debuggers, which would need the kernel's own and a tool for it.
chroot tree make -s -j"$(nproc)" -C "$headers" M=/source/fs/smb CONFIG_SMBFS=m CONFIG_CIFS=m CONFIG_SMB_SERVER=m \
  CONFIG_CIFS_SMB_DIRECT=y CONFIG_SMB_SERVER_SMBDIRECT=y CONFIG_DEBUG_INFO_BTF_MODULES= \
  KCFLAGS='-DCONFIG_CIFS_SMB_DIRECT=1 -DCONFIG_SMB_SERVER_SMBDIRECT=1' modules >&2
chroot tree strip --strip-debug /source/fs/smb/client/cifs.ko /source/fs/smb/server/ksmbd.ko

# What they depend on comes from the kernel's package. The ciphers they ask the kernel for by name.
dpkg -x debs/linux-image-*.deb kernel
[[ -e kernel/lib ]] || ln -s usr/lib kernel/lib
depmod -b kernel "$release"
for module in cifs ksmbd nls_utf8 cmac ccm gcm ghash_generic; do
  modprobe -d "$work/kernel" -S "$release" --ignore-install --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
  xz -dc "$path" >"$out/$(basename "${path%.xz}")"
done
mv tree/source/fs/smb/{client/cifs,server/ksmbd}.ko "$out/"
