#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernelfigures.sh own|rxe0|siw0 [RUNS]
#
# Measures package kernel beside perftest on the same device, by turns, and prints the table of docs/kernel.md: on
# Ramjet's own libibverbs, or in the guest machine on its device, towards Ramjet on this host. The guest runs under
# software emulation on one processor: its figures say nothing but their ratios, and those are coarse. Needs gcc and
# perftest; the guest needs root.
set -euo pipefail
[[ $# -ge 1 && $# -le 2 ]] || { echo "usage: $0 own|rxe0|siw0 [RUNS]" >&2; exit 2; }
device=$1 runs=${2:-7}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$here/.." && CGO_ENABLED=0 go build -o "$folder/ramjet" ./cmd/ramjet)
"$here/../cabi/build.sh" "$folder/lib" >/dev/null
export PATH=$folder:$PATH
case $device in
own)
	devices=roce:127.94.1.1,roce:127.94.1.2
	export SERVER=roce0 PERFTEST_ENV="LD_LIBRARY_PATH=$folder/lib RAMJET_DEVICES=$devices"
	export RAMJET_ENV="RAMJET_LIBIBVERBS=$folder/lib/libibverbs.so.1 RAMJET_DEVICES=$devices"
	python3 "$here/kernelfigures.py" roce1 127.94.1.1 "$runs"
	exit
	;;
rxe0) export GID=1 SERVER=roce:10.9.0.1 address=10.9.0.1 ;;
siw0) export IWARP=1 SERVER=iwarp:10.9.1.1 address=10.9.1.1 ;;
*) echo "$0: there is no $device: give own, rxe0 or siw0" >&2; exit 2 ;;
esac
export REMOTE=10.9.0.2:7471 SCALE=${SCALE:-0.2} PERFTEST_ENV="LD_LIBRARY_PATH=$folder/lib RAMJET_DEVICES=$SERVER"
mkdir "$folder/guest"
cp "$folder/ramjet" "$here/kernelfigures.py" "$folder/guest"
cat >"$folder/guest/guest.sh" <<'GUEST'
export PATH=/peer:$PATH
cd /tmp
echo "peer: ready"
exec python3 /peer/kernelfigures.py --clients 7471
GUEST
"$here/peervm/pair.sh" "$folder/guest" python3 "$here/kernelfigures.py" "$device" "$address" "$runs"
