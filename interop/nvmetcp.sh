#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How fast a disk in memory is read by NVMe over RDMA beside NVMe over TCP, with the Linux kernel's hosts in the guest machine.
# fio reads 4 KiB, one and 127 at once, and 128 KiB, 16 at once, of four targets in turns: the kernel's own in the guest, over TCP
# and over rxe, and Ramjet's outside, over RoCEv2 with rxe and over iWARP with siw. Prints the medians of the rounds, in reads a
# second. The guest is software emulation: its processor does all of the kernel's work many times slower than a machine, and the
# figures compare those that it runs with each other only.
#
#   nvmetcp.sh [ROUNDS [FOLDER]]     3 rounds by default; FOLDER is that of nvme.sh: ~/.cache/ramjet-nvme by default
#
# Needs root, and what peervm/build.sh needs.
set -euo pipefail
rounds=${1:-3}
folder=${2:-$HOME/.cache/ramjet-nvme}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
# shellcheck source=interop/nvmeguest.sh
. "$here/nvmeguest.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
guest_folder "$work/guest" nvme-rdma nvmet-rdma nvme-tcp nvmet-tcp brd
(cd "$here/../nvme" && CGO_ENABLED=0 go build -o "$work/ramjet-nvme" ./cmd/ramjet-nvme)
echo "rounds=$rounds" >"$work/guest/rounds"

cat >"$work/guest/guest.sh" <<'GUEST'
. /peer/words.sh
. /peer/rounds
. /peer/nvmeguest
rmmod brd
insmod /peer/modules/brd.ko rd_nr=1 rd_size=65536
echo "peer: ready"
subsystem=nqn.2026-01.org.example:kernel
# port NUMBER TRANSPORT ADDRESS: a port of the kernel's target.
port() {
	mkdir "ports/$1"
	echo "$2" >"ports/$1/addr_trtype"
	echo ipv4 >"ports/$1/addr_adrfam"
	echo "$3" >"ports/$1/addr_traddr"
	echo 4420 >"ports/$1/addr_trsvcid"
	ln -s "/sys/kernel/config/nvmet/subsystems/$subsystem" "ports/$1/subsystems/"
}
# target: the kernel's, of a disk in memory.
target() (
	set -ex
	[ -e /dev/ram0 ]
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	cd /sys/kernel/config/nvmet
	mkdir "subsystems/$subsystem" "subsystems/$subsystem/namespaces/1"
	echo 1 >"subsystems/$subsystem/attr_allow_any_host"
	echo -n /dev/ram0 >"subsystems/$subsystem/namespaces/1/device_path"
	echo 1 >"subsystems/$subsystem/namespaces/1/enable"
	port 1 tcp 127.0.0.1
	port 2 rdma 10.9.0.2
)
# reads NAME TRANSPORT ADDRESS NQN: prints how often a second fio reads.
reads() (
	set -e
	tool nvme connect -t "$2" -a "$3" -s 4420 -n "$4" --nr-io-queues 1 --queue-size 128 >/dev/null
	for i in $(seq 600); do
		disk=$(ls /dev/nvme?n1 2>/dev/null) && break
		sleep 0.1
	done
	for case in "4k 1" "4k 127" "128k 16"; do
		rate=$(tool fio --name=read --filename="$disk" --rw=randread "--bs=${case% *}" "--iodepth=${case#* }" --size=64M --direct=1 \
			--ioengine=libaio --time_based --runtime=4 --thread --randrepeat=0 --output-format=terse --terse-version=3 | cut -d ';' -f 8)
		echo "$case;$1;$rate"
	done
	tool nvme disconnect -n "$4" >/dev/null
)
all() (
	set -e
	target 2>/tmp/target
	for i in $(seq "$rounds"); do
		reads "kernel, TCP" tcp 127.0.0.1 "$subsystem"
		reads "kernel, rxe" rdma 10.9.0.2 "$subsystem"
		reads "Ramjet, roce" rdma 10.9.0.1 nqn.2026-01.io.ramjet:disks
		reads "Ramjet, iwarp" rdma 10.9.1.1 nqn.2026-01.io.ramjet:disks
	done
)
all >/tmp/output 2>/tmp/errors
status=$?
[ "$status" = 0 ] || cat /tmp/target /tmp/errors >>/tmp/output
tell 7998 "$status"
sleep 600
GUEST

cat >"$work/host.sh" <<'HOST'
set -euo pipefail
work=$1
. "$work/guest/words.sh"
"$work/ramjet-nvme" serve -d roce:10.9.0.1 -d iwarp:10.9.1.1 --any-host memory:64MiB >"$work/log" 2>&1 &
server=$!
trap 'kill -INT "$server"; wait' EXIT
heard 7998 >"$work/heard" || { cat "$work/heard" "$work/log" >&2; exit 1; }
sort -t ';' -k 1,2 -k 3g "$work/heard" | awk -F ';' '
	$1 ";" $2 != key { show(); key = $1 ";" $2; n = 0 }
	{ v[++n] = $3 }
	function show() { if (n) { split(key, k, ";"); printf "%-10s %-14s %8.0f\n", k[1], k[2], v[int((n + 1) / 2)] } }
	END { show() }'
HOST
"$here/peervm/pair.sh" -t 2400 "$work/guest" bash "$work/host.sh" "$work"
