#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Module nvme against the Linux kernel's NVMe over RDMA in the guest machine, both ways, on rxe (RoCEv2) and siw (iWARP): the
# kernel's host nvme-rdma mounts a file system of a Ramjet target and works on raw namespaces, of which one comes and goes, and
# Ramjet's host reads and writes a namespace of the kernel's target nvmet-rdma. On siw, and where the kernel is the target, both
# prove to each other who they are by DH-HMAC-CHAP; wrong secrets are refused. The kernel's multipath uses the better of two
# ports, and the other when the first is gone; and it goes on when the target is killed and started again while it writes.
# nvme-cli discovers and connects; fio writes 32 blocks at once, and verifies them.
#
#   nvme.sh [FOLDER]     FOLDER keeps Debian's packages: ~/.cache/ramjet-nvme by default
#
# The guest's image lacks the modules, nvme-cli and fio: see nvmeguest.sh. Needs root, and what peervm/build.sh needs.
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-nvme}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
# shellcheck source=interop/nvmeguest.sh
. "$here/nvmeguest.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
guest_folder "$work/guest" nvme-rdma nvmet-rdma
(cd "$here/../nvme" && CGO_ENABLED=0 go build -o "$work/ramjet-nvme" ./cmd/ramjet-nvme)
{
	echo "host_secret=$("$work/ramjet-nvme" gen-dhchap-key --hmac 1)"
	echo "ctrl_secret=$("$work/ramjet-nvme" gen-dhchap-key --hmac 3 --key-length 64)"
	echo "hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
} >"$work/guest/secrets"

cat >"$work/guest/guest.sh" <<'GUEST'
. /peer/words.sh
. /peer/secrets
. /peer/nvmeguest
echo "peer: ready"
# host ADDRESS: the kernel's host against Ramjet's target.
host() (
	set -ex
	to="transport=rdma,traddr=$1,trsvcid=4420,nqn=nqn.2026-01.io.ramjet:disks,hostnqn=$hostnqn,hostid=11111111-2222-4333-8444-555555555555,nr_io_queues=2,queue_size=32,keep_alive_tmo=30"
	if [ "$1" = 10.9.1.1 ]; then
		for wrong in "" ",dhchap_secret=$ctrl_secret" ",dhchap_secret=$host_secret,dhchap_ctrl_secret=$host_secret"; do
			if echo "$to$wrong" >/dev/nvme-fabrics; then
				exit 1
			fi
		done
		to="$to,dhchap_secret=$host_secret,dhchap_ctrl_secret=$ctrl_secret"
	fi
	tool nvme discover -t rdma -a "$1" -s 4420 -q "$hostnqn" >/tmp/discovered
	grep -q "subnqn: *nqn.2026-01.io.ramjet:disks" /tmp/discovered
	echo "$to" >/dev/nvme-fabrics
	ctrl=$(basename /sys/class/nvme/nvme[0-9]*)
	for i in $(seq 600); do
		[ "$(ls -d /sys/block/nvme?n* 2>/dev/null | wc -l)" = 2 ] && break # nvme0c0n1 and others are paths to them
		sleep 0.1
	done
	cat "/sys/class/nvme/$ctrl/state" "/sys/class/nvme/$ctrl/model" "/sys/class/nvme/$ctrl/subsysnqn"
	for block in /sys/block/nvme?n*; do # which the kernel numbers as it likes
		case $(cat "$block/nsid") in
		1) n1=/dev/$(basename "$block") ;;
		2) n2=/dev/$(basename "$block") ;;
		esac
	done
	ls "$n1" "$n2"
	blockdev --getsize64 "$n1" "$n2"
	# A file tree, on a file system that the host's script has made.
	mkdir -p /tmp/mnt
	mount -t ext4 "$n1" /tmp/mnt
	cp -r /usr/lib/python3/dist-packages /usr/sbin /tmp/mnt/
	umount /tmp/mnt
	echo 3 >/proc/sys/vm/drop_caches
	mount -t ext4 "$n1" /tmp/mnt
	diff -r --no-dereference /usr/lib/python3/dist-packages /tmp/mnt/dist-packages
	diff -r --no-dereference /usr/sbin /tmp/mnt/sbin
	rm -r /tmp/mnt/sbin
	umount /tmp/mnt
	# Raw: reads and writes of several sizes beside the page cache, zeros, deallocation.
	head -c 4194304 /dev/urandom >/tmp/random
	for bs in 512 4096 65536 1048576; do
		dd if=/tmp/random of="$n2" bs="$bs" count=$((bs == 512 ? 512 : 4194304 / bs)) oflag=direct conv=fsync status=none
		dd if="$n2" of=/tmp/back bs="$bs" count=$((bs == 512 ? 512 : 4194304 / bs)) iflag=direct status=none
		cmp -n $((bs == 512 ? 262144 : 4194304)) /tmp/random /tmp/back
	done
	blkdiscard -z -o 65536 -l 1048576 "$n2"
	dd if="$n2" of=/tmp/back bs=65536 skip=1 count=16 iflag=direct status=none
	cmp -n 1048576 /tmp/back /dev/zero
	blkdiscard -o 2097152 -l 1048576 "$n2"
	tool nvme id-ns "$n2" -n 2 | grep "nsze *: *0x8000"
	# 32 at once: each block is written, and then read and verified; parts of blocks, sequentially and at random.
	for how in "--rw=randwrite --bs=4k" "--rw=randwrite --bsrange=512-64k" "--rw=write --bs=128k"; do
		# shellcheck disable=SC2086 # several words
		tool fio --name=verify --filename="$n2" --size=8M --direct=1 --ioengine=libaio --iodepth=32 --verify=crc32c \
			--verify_fatal=1 --do_verify=1 --thread --output-format=terse --terse-version=3 $how
	done
	# A namespace comes, and goes: each is a notice, by which the kernel scans again.
	tell 7998 0
	for i in $(seq 600); do
		n7=$(grep -lx 7 /sys/block/nvme?n*/nsid) && break
		sleep 0.1
	done
	n7=/dev/$(basename "$(dirname "$n7")")
	dd if=/tmp/random of="$n7" bs=65536 count=64 oflag=direct conv=fsync status=none
	dd if="$n7" of=/tmp/back bs=65536 count=64 iflag=direct status=none
	cmp /tmp/random /tmp/back
	tell 7998 0
	for i in $(seq 600); do
		[ ! -e "$n7" ] && break
		sleep 0.1
	done
	[ ! -e "$n7" ] && [ -e "$n1" ] && [ -e "$n2" ]
	dd if="$n2" of=/tmp/back bs=65536 count=1 iflag=direct status=none
	echo 1 >"/sys/class/nvme/$ctrl/delete_controller"
	[ -z "$(ls -d /sys/block/nvme?n* 2>/dev/null)" ]
)
for address in 10.9.0.1 10.9.1.1; do
	host "$address" >/tmp/output 2>&1
	status=$?
	dmesg | grep -i nvme | tail -n 30 >>/tmp/output
	tell 7998 "$status"
done
# The kernel's multipath on two ports of Ramjet's target, the second of which is non-optimized.
paths() (
	set -ex
	modprobe -q nvme_core 2>/dev/null || true
	for address in 10.9.0.1 10.9.1.1; do
		echo "transport=rdma,traddr=$address,trsvcid=4421,nqn=nqn.2026-01.io.ramjet:paths,hostnqn=$hostnqn,hostid=11111111-2222-4333-8444-555555555555,nr_io_queues=2,queue_size=32,keep_alive_tmo=5,reconnect_delay=1,ctrl_loss_tmo=120" >/dev/nvme-fabrics
	done
	for i in $(seq 600); do
		[ "$(cat /sys/class/nvme/nvme?/nvme?c?n?/ana_state 2>/dev/null | wc -l)" = 2 ] && break
		sleep 0.1
	done
	for path in /sys/class/nvme/nvme?/nvme?c?n?; do
		echo "$(cat "$path/ana_state") $(cat "$path/../address")"
	done | sort >/tmp/states
	cat /tmp/states
	grep -q "^optimized traddr=10.9.0.1" /tmp/states
	grep -q "^non-optimized traddr=10.9.1.1" /tmp/states
	disk=/dev/$(basename /sys/block/nvme?n?)
	head -c 33554432 /dev/urandom >/tmp/random
	# Killed and started again, while this goes on.
	tell 7997 0
	for i in 1 2 3 4 5 6; do
		dd if=/tmp/random of="$disk" bs=65536 oflag=direct conv=fsync status=none
	done
	echo 3 >/proc/sys/vm/drop_caches
	cmp -n 33554432 /tmp/random "$disk"
	dmesg | grep -ci "reconnect"
	# Without the better path.
	head -c 8388608 /dev/urandom >/tmp/random
	dd if=/tmp/random of="$disk" bs=4096 oflag=direct conv=fsync status=none &
	for ctrl in /sys/class/nvme/nvme?; do
		! grep -q "traddr=10.9.0.1" "$ctrl/address" || echo 1 >"$ctrl/delete_controller"
	done
	wait $!
	echo 3 >/proc/sys/vm/drop_caches
	cmp -n 8388608 /tmp/random "$disk"
	for ctrl in /sys/class/nvme/nvme?; do
		echo 1 >"$ctrl/delete_controller"
	done
)
: >/tmp/output
paths >/tmp/paths 2>&1
status=$?
dmesg | grep -i nvme | tail -n 30 >>/tmp/paths
mv /tmp/paths /tmp/output
tell 7996 "$status"
# The kernel's target, for Ramjet's host.
target() (
	set -ex
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	cd /sys/kernel/config/nvmet
	mkdir subsystems/nqn.2026-01.org.example:kernel
	echo 1 >subsystems/nqn.2026-01.org.example:kernel/attr_allow_any_host
	truncate -s 32M /tmp/disk
	mkdir subsystems/nqn.2026-01.org.example:kernel/namespaces/1
	echo 1 >subsystems/nqn.2026-01.org.example:kernel/namespaces/1/buffered_io
	echo -n /tmp/disk >subsystems/nqn.2026-01.org.example:kernel/namespaces/1/device_path
	echo 1 >subsystems/nqn.2026-01.org.example:kernel/namespaces/1/enable
	guarded=subsystems/nqn.2026-01.org.example:guarded
	mkdir "$guarded" "$guarded/namespaces/1" "hosts/$hostnqn"
	truncate -s 32M /tmp/guarded
	echo 1 >"$guarded/namespaces/1/buffered_io"
	echo -n /tmp/guarded >"$guarded/namespaces/1/device_path"
	echo 1 >"$guarded/namespaces/1/enable"
	echo "$host_secret" >"hosts/$hostnqn/dhchap_key"
	echo "$ctrl_secret" >"hosts/$hostnqn/dhchap_ctrl_key"
	echo "hmac(sha384)" >"hosts/$hostnqn/dhchap_hash"
	echo ffdhe2048 >"hosts/$hostnqn/dhchap_dhgroup"
	ln -s "/sys/kernel/config/nvmet/hosts/$hostnqn" "$guarded/allowed_hosts/"
	for port in 0 1; do
		mkdir "ports/$port"
		echo rdma >"ports/$port/addr_trtype"
		echo ipv4 >"ports/$port/addr_adrfam"
		echo "10.9.$port.2" >"ports/$port/addr_traddr"
		echo 4420 >"ports/$port/addr_trsvcid"
		ln -s /sys/kernel/config/nvmet/subsystems/nqn.2026-01.org.example:kernel "ports/$port/subsystems/"
		ln -s "/sys/kernel/config/nvmet/$guarded" "ports/$port/subsystems/"
	done
)
target >/tmp/output 2>&1
tell 7999 $?
sleep 600
GUEST

cat >"$work/host.sh" <<'HOST'
set -euo pipefail
work=$1
. "$work/guest/words.sh"
. "$work/guest/secrets"
# hear PORT [COUNT] waits for words of the guest, and shows those of a failure.
hear() { heard "$@" >"$work/heard" || { tail -n 200 "$work/heard" >&2; return 1; }; }
pids=()
trap '((${#pids[@]} == 0)) || kill "${pids[@]}"; wait' EXIT
serve() { # DEVICE: a file with a file system, and one without
	truncate -s 128M "$work/$1.1"
	mkfs.ext4 -q "$work/$1.1"
	truncate -s 16M "$work/$1.2" "$work/$1.7"
	: >"$work/$1.list"
	local who=(--any-host)
	[[ $1 != iwarp:* ]] || who=(--dhchap-secret "$hostnqn=$host_secret" --dhchap-ctrl-secret "$hostnqn=$ctrl_secret"
		--dhchap-hash sha512 --dhchap-dhgroup ffdhe3072)
	"$work/ramjet-nvme" serve -d "$1" "${who[@]}" --writable --list "$work/$1.list" \
		"$work/$1.1" "$work/$1.2" >"$work/$1.log" 2>&1 &
	pids+=($!)
}
serve roce:10.9.0.1
serve iwarp:10.9.1.1
for i in 0 1; do
	device=roce:10.9.0.1
	((i == 0)) || device=iwarp:10.9.1.1
	hear 7998 || { tail "$work"/*.log; exit 1; }
	echo "7 $work/$device.7" >"$work/$device.list"
	kill -HUP "${pids[i]}"
	hear 7998 || { tail "$work"/*.log; exit 1; }
	: >"$work/$device.list"
	kill -HUP "${pids[i]}"
	hear 7998 || { tail "$work"/*.log; exit 1; }
done
kill -INT "${pids[@]}"
wait
pids=()
for device in roce:10.9.0.1 iwarp:10.9.1.1; do
	e2fsck -fn "$work/$device.1" >"$work/fsck" 2>&1 || { cat "$work/fsck"; exit 1; }
	echo "kernel host, target on $device: a file tree, raw blocks, zeros, deallocation, fio at depth 32, a namespace that comes and goes: good"
done
# Two ports, of a target that is killed while the kernel writes.
truncate -s 64M "$work/paths"
paths() {
	"$work/ramjet-nvme" serve -d roce:10.9.0.1 -d iwarp:10.9.1.1 --ana-state iwarp:10.9.1.1=non-optimized --listen :4421 \
		--nqn nqn.2026-01.io.ramjet:paths --any-host --writable "$work/paths" >>"$work/paths.log" 2>&1 &
	pids=($!)
}
paths
hear 7997 1
sleep 1
kill -9 "${pids[@]}"
wait "${pids[@]}" || true
sleep 1
paths
hear 7996 1 || { tail -n 40 "$work/paths.log"; exit 1; }
kill -INT "${pids[@]}"
wait
pids=()
echo "kernel host, two ports of a target that is killed and started again in mid-write: good"
hear 7999 1
head -c 8000000 /dev/urandom >"$work/random"
for i in 0 1; do
	device=roce:10.9.0.1
	((i == 0)) || device=iwarp:10.9.1.1
	"$work/ramjet-nvme" discover -d "$device" "10.9.$i.2:4420"
	kernel=("10.9.$i.2" nqn.2026-01.org.example:kernel)
	"$work/ramjet-nvme" list -d "$device" "${kernel[@]}"
	"$work/ramjet-nvme" write -d "$device" "${kernel[@]}" "$work/random" --offset 65536
	"$work/ramjet-nvme" read -d "$device" "${kernel[@]}" --offset 65536 --length 8000000 | cmp - "$work/random"
	"$work/ramjet-nvme" bench -d "$device" "${kernel[@]}" --depth 16 --time 3s
	guarded=(-d "$device" "10.9.$i.2" nqn.2026-01.org.example:guarded --host-nqn "$hostnqn")
	for wrong in "" "--dhchap-secret $ctrl_secret" "--dhchap-secret $host_secret --dhchap-ctrl-secret $host_secret"; do
		# shellcheck disable=SC2086 # several words
		if "$work/ramjet-nvme" list "${guarded[@]}" $wrong 2>"$work/refused"; then
			echo "nvme.sh: with $wrong the kernel's target lets in" >&2
			exit 1
		fi
		cat "$work/refused"
	done
	guarded+=(--dhchap-secret "$host_secret" --dhchap-ctrl-secret "$ctrl_secret")
	"$work/ramjet-nvme" write "${guarded[@]}" "$work/random"
	"$work/ramjet-nvme" read "${guarded[@]}" --length 8000000 | cmp - "$work/random"
	echo "Ramjet's host on $device, kernel target: good"
done
HOST
"$here/peervm/pair.sh" -t 1500 "$work/guest" bash "$work/host.sh" "$work"
echo "nvme.sh: all good"
