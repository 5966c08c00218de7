#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# siw.sh FOLDER RELEASE MIRROR - build siw.ko for a kernel of Debian 13 into FOLDER.
#
# Debian's kernels leave siw out (CONFIG_RDMA_SIW is not set), so it is built from Debian's
# source of the same kernel, with that kernel's compiler and headers, in a tree of its own.
# What siw has as constants (CRCs, peer-to-peer set-up, …) becomes module parameters that can
# be changed while it runs; nothing else of it is touched. Needs root and mmdebstrap.
set -euo pipefail
out=$1 release=$2 mirror=$3

work=$(mktemp -d "$out/siw.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir debs

# The headers are unpacked and not installed: as packages they want a kernel beside them.
# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
fetch='export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
  cd "$WORK/debs" && apt-get -q -o APT::Sandbox::User=root download linux-source-6.12 "linux-headers-$RELEASE" \
    $(apt-cache depends "linux-headers-$RELEASE" | sed -n "s/.*Depends: \(linux-\(headers\|kbuild\)-[^ ]*\).*/\1/p")'
WORK=$work RELEASE=$release mmdebstrap --quiet --mode=root --variant=essential --include=gcc-14,make,libelf1t64 \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="$fetch" trixie tree "deb $mirror trixie main" >&2
for package in debs/linux-{headers,kbuild}-*.deb; do
  dpkg -x "$package" tree
done

mkdir tree/siw
dpkg --fsys-tarfile debs/linux-source-*.deb | tar -xOf - --wildcards '*/linux-source-*.tar.xz' | xz -dc -T0 |
  tar -xf - -C tree/siw --strip-components=5 --wildcards 'linux-source-*/drivers/infiniband/sw/siw/*'
sed -Ei -e 's/^const bool (\w+)( = \w+)?;/bool \1\2;\nmodule_param(\1, bool, 0644);/' \
  -e 's/^u_char (mpa_version) = (\w+);/u_char \1 = \2;\nmodule_param(\1, byte, 0644);/' tree/siw/siw_main.c
sed -Ei 's/^extern const bool /extern bool /' tree/siw/siw.h

# No type information for debuggers, which would need the kernel's own and a tool for it.
chroot tree make -s -C "/usr/src/linux-headers-$release" M=/siw CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2
chroot tree strip --strip-debug /siw/siw.ko
modinfo -F parm tree/siw/siw.ko | grep -q '^mpa_crc_required:' || { echo "siw.sh: the source has changed: no parameters" >&2; exit 1; }
mv tree/siw/siw.ko "$out/siw.ko"
