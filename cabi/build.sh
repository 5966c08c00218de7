#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh [DIR]: builds libibverbs.so.1, librdmacm.so.1, libibumad.so.3, librspreload.so, libramjet-check.so and libramjet.so
# into DIR, or else into ~/.local/lib/ramjet, where `ramjet run` finds them. Needs Go, gcc, and the headers of libibverbs-dev and
# librdmacm-dev.
#
#   CC, GOARCH       for another architecture: CC=aarch64-linux-gnu-gcc GOARCH=arm64
#   RAMJET_VERSION   what devices give as their firmware's version: releases set it
set -euo pipefail
[[ $# -le 1 && ${1-} != -* ]] || { echo "usage: $0 [DIR]" >&2; exit 2; }
dir=${1:-$HOME/.local/lib/ramjet}
mkdir -p "$dir"
out=$(cd "$dir" && pwd)
cd "$(dirname "$0")"
cc=${CC:-gcc}
for tool in go "$cc"; do
	command -v "$tool" >/dev/null ||
		{ echo "$0: there is no $tool: it needs Go, and on Debian apt-get install gcc libc6-dev libibverbs-dev librdmacm-dev" >&2; exit 1; }
done
for header in infiniband/verbs.h rdma/rdma_cma.h; do
	echo "#include <$header>" | "$cc" -fsyntax-only -xc - 2>/dev/null ||
		{ echo "$0: $cc finds no <$header>: on Debian, apt-get install gcc libc6-dev libibverbs-dev librdmacm-dev" >&2; exit 1; }
done

# With exceptions, so that threads can be cancelled: their stacks are unwound.
cflags=(-O2 -g -std=gnu11 -Wall -Wextra -Wno-missing-field-initializers -fPIC -fvisibility=hidden -fexceptions -pthread)
# The dynamic linker must not bind one library's calls to another's symbols of the same name.
# The libraries stay loaded after dlclose, as Go's does: its threads are still there.
ldflags=(-shared '-Wl,-z,relro,-z,now,-z,defs,-z,nodelete' '-Wl,-Bsymbolic-functions')

version=${RAMJET_VERSION-}
[[ -n $version || ! $PWD =~ @(v[^/]+)/cabi$ ]] || version=${BASH_REMATCH[1]} # in Go's module cache
# The runtime must not interrupt threads by SIGURG, which is the program's: see c/load.c. Nor may it take away room on stacks
# that is for handlers of signals: see package sigstack.
CGO_ENABLED=1 CC=$cc go build -tags cabi -buildmode=c-shared \
	-ldflags="-s -w -X=runtime.godebugDefault=asyncpreemptoff=1,gcshrinkstackoff=1 \
		-X=github.com/ramjet-rdma/ramjet/internal/core/softdev.release=$version" -o "$out/libramjet.so" .
rm -f "$out/libramjet.h"

# Each C file calls only those that are named before it: a test of cabi/programs holds this.
"$cc" "${cflags[@]}" "${ldflags[@]}" -Wl,-soname,libibverbs.so.1 -Wl,--version-script=c/ibverbs.map \
	-o "$out/libibverbs.so.1" c/stack.c c/load.c c/regions.c c/guard.c c/names.c c/kern.c c/absent.c c/private.c c/events.c c/data.c c/logops.c c/cqpoll.c c/builder.c \
	c/query.c c/memory.c c/ah.c c/cqwait.c c/cq.c c/srq.c c/qp.c c/device.c c/recent.c c/log.c -ldl
"$cc" "${cflags[@]}" "${ldflags[@]}" -Wl,-soname,librdmacm.so.1 -Wl,--version-script=c/rdmacm.map \
	-o "$out/librdmacm.so.1" c/cmdevices.c c/cmaddr.c c/cmchannel.c c/cmid.c c/cmevents.c c/cmconnect.c c/cmmulticast.c \
	c/cmqueues.c c/cmep.c c/cmrecent.c c/cmlog.c c/rspoll.c c/repoll.c c/rsocket.c c/rslog.c "$out/libibverbs.so.1"
"$cc" "${cflags[@]}" "${ldflags[@]}" -Wl,-soname,libibumad.so.3 -Wl,--version-script=c/ibumad.map \
	-o "$out/libibumad.so.3" c/umadports.c c/umadbuffer.c c/umad.c c/umadnames.c "$out/libibverbs.so.1"
"$cc" "${cflags[@]}" "${ldflags[@]}" -Wl,-soname,libramjet-sysfs.so -o "$out/libramjet-sysfs.so" c/restart.c c/sysfs.c -ldl
"$cc" "${cflags[@]}" "${ldflags[@]}" -Wl,-soname,librspreload.so.1 \
	-o "$out/librspreload.so" c/preload.c "$out/librdmacm.so.1" "$out/libibverbs.so.1" -ldl
"$cc" "${cflags[@]}" -fno-builtin "${ldflags[@]}" -Wl,-soname,libramjet-check.so \
	-o "$out/libramjet-check.so" c/check.c "$out/libibverbs.so.1" -ldl
ls -l "$out"/lib*.so*
