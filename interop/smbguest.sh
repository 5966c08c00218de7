#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Module smbdirect against the Linux kernel's SMB client cifs and its SMB server ksmbd in the guest machine, on rxe (RoCEv2)
# and siw (iWARP). The kernel mounts a share of Samba through ramjet-smb gateway: a file tree, fio with verification, signed and
# encrypted sessions, and the gateway is killed and started again while the kernel writes. ramjet-smb copies files to and
# from a share of ksmbd: through the RDMA channel, signed, and encrypted.
#
#   smbguest.sh [FOLDER]     FOLDER keeps packages and modules: ~/.cache/ramjet-smb by default
#
# The guest's image lacks all of it: peervm/smbmodules.sh builds the modules, and mount.cifs, ksmbd's daemon and fio come from
# Debian's packages, from the mirror $PEERVM_MIRROR, by default the one that this machine's apt uses. Needs root, and what
# peervm/build.sh needs.
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-smb}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
image=$("$here/peervm/build.sh")
release=$(sed -n 's/^linux //p' "$image/manifest")
mirror=$("$here/mirror.sh" PEERVM_MIRROR)
# shellcheck source=interop/samba.sh
. "$here/samba.sh"
samba_fetch

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ! -d $folder/modules-$release ]]; then
	mkdir "$work/modules"
	"$here/peervm/smbmodules.sh" "$work/modules" "$release" "$mirror"
	mv "$work/modules" "$folder/modules-$release"
fi
if [[ ! -d $folder/tools ]]; then # programs of Debian 13, and the libraries that they need
	mmdebstrap --quiet --mode=root --variant=extract --include=fio,cifs-utils,ksmbd-tools trixie "$work/tree" "deb $mirror trixie main" >&2
	mkdir -p "$work/tools/bin" "$work/tools/lib"
	for program in bin/fio sbin/{mount.cifs,ksmbd.mountd,ksmbd.control,ksmbd.adduser}; do
		cp -L "$work/tree/usr/$program" "$work/tools/bin/"
		chroot "$work/tree" /usr/lib64/ld-linux-x86-64.so.2 --library-path /usr/lib/x86_64-linux-gnu --list "/usr/$program"
	done | awk '$2 == "=>" {print $3}' | sort -u | while read -r library; do
		cp -L "$work/tree/$library" "$work/tools/lib/"
	done
	rm -rf "$work/tree"
	mv "$work/tools" "$folder/tools"
fi
mkdir "$work/guest"
cp -r "$folder/modules-$release" "$work/guest/modules"
cp -r "$folder/tools" "$here/peervm/words.sh" "$work/guest/"
(cd "$here/../smbdirect" && CGO_ENABLED=0 go build -o "$work/ramjet-smb" ./cmd/ramjet-smb)

cat >"$work/guest/guest.sh" <<'GUEST'
. /peer/words.sh
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
mkdir "/lib/modules/$(uname -r)/updates/smb" /tmp/mnt /tmp/share /run/lock /etc/ksmbd
cp /peer/modules/*.ko "/lib/modules/$(uname -r)/updates/smb/"
cp -r /peer/tools /tmp/tools
depmod -a
modprobe -a cifs ksmbd
export PATH="$PATH:/tmp/tools/bin"
linked() ( LD_LIBRARY_PATH=/tmp/tools/lib "$@" )
echo "peer: ready"
mount_share() { # ADDRESS OPTIONS
	for i in 1 2 3; do # of a few seconds each, which are short for a busy machine
		linked mount.cifs "//$1/files" /tmp/mnt -o "rdma,vers=3.1.1,user=root,password=secret,mfsymlinks,hard,$2" && return
	done
	return 1
}
# client ADDRESS: the kernel's client against the gateway.
client() (
	set -ex
	mount_share "$1" serverino
	grep ' /tmp/mnt cifs .*,rdma,' /proc/mounts
	cp -r /usr/lib/python3/dist-packages /usr/sbin /tmp/mnt/
	umount /tmp/mnt
	mount_share "$1" serverino
	diff -r --no-dereference /usr/lib/python3/dist-packages /tmp/mnt/dist-packages
	diff -r --no-dereference /usr/sbin /tmp/mnt/sbin
	rm -r /tmp/mnt/sbin /tmp/mnt/dist-packages
	for direct in 0 1; do
		(cd /tmp && linked fio --name=verify --directory=/tmp/mnt --rw=randwrite --bsrange=512-1m --size=32m --ioengine=libaio \
			--iodepth=32 --direct=$direct --verify=crc32c --do_verify=1 --verify_fatal=1 --output-format=terse)
		rm /tmp/mnt/verify.*
	done
	umount /tmp/mnt
	for guard in sign seal; do
		mount_share "$1" "$guard,rsize=131072,wsize=131072"
		head -c 5000000 /dev/urandom >/tmp/random
		cp /tmp/random /tmp/mnt/random
		umount /tmp/mnt
		mount_share "$1" "$guard,rsize=131072,wsize=131072"
		cmp /tmp/random /tmp/mnt/random
		rm /tmp/mnt/random
		umount /tmp/mnt
	done
	# The gateway is killed and started again, while this goes on.
	mount_share "$1" serverino
	head -c 33554432 /dev/urandom >/tmp/random
	tell 7997 0
	for i in 1 2 3 4; do
		dd if=/tmp/random "of=/tmp/mnt/$i" bs=64k oflag=direct conv=fsync status=none
	done
	echo 3 >/proc/sys/vm/drop_caches
	for i in 1 2 3 4; do
		cmp /tmp/random "/tmp/mnt/$i"
		rm "/tmp/mnt/$i"
	done
	umount /tmp/mnt
)
for address in 10.9.0.1 10.9.1.1; do
	: >/tmp/output
	client "$address" >/tmp/client 2>&1
	status=$?
	dmesg | grep CIFS | tail -n 30 >>/tmp/client
	mv /tmp/client /tmp/output
	tell 7997 "$status"
done
# The kernel's server, for ramjet-smb.
echo "[global]" >/tmp/ksmbd.conf
linked ksmbd.adduser -a -p secret -C /tmp/ksmbd.conf -P /tmp/users alice >/tmp/output 2>&1
tell 7998 $?
for mode in "auto no" "mandatory no" "auto yes"; do
	cat >/tmp/ksmbd.conf <<-CONF
	[global]
	server signing = ${mode% *}
	smb3 encryption = ${mode#* }
	[files]
	path = /tmp/share
	read only = no
	force user = root
	force group = root
	CONF
	linked ksmbd.control -s >/dev/null 2>&1
	linked ksmbd.mountd -C /tmp/ksmbd.conf -P /tmp/users >/tmp/output 2>&1
	status=$?
	[ "$mode" = "auto no" ] && echo rdma >/sys/class/ksmbd-control/debug # on
	tell 7998 "$status"
	python3 -c '
import socket
socket.create_server(("10.9.0.2", 7002)).accept()' # until the host is through
	cksum /tmp/share/* >/tmp/output
	[ "$mode" = "auto no" ] && echo rdma >/sys/class/ksmbd-control/debug # off
	for way in read write; do
		echo "$way $(dmesg | grep -c "RDMA $way, len")" >>/tmp/output # of data through the RDMA channel
	done
	dmesg -C
	tell 7999 0
done
sleep 600
GUEST

cat >"$work/host.sh" <<'HOST'
set -euo pipefail
work=$1 folder=$2 here=$3
. "$here/samba.sh"
. "$work/guest/words.sh"
running=()
trap '((${#running[@]} == 0)) || kill "${running[@]}"; wait' EXIT
hear() { heard "$1" >"$work/heard" || { cat "$work/heard" "$work/gateway" >&2; exit 1; }; }
serve() { # DEVICE
	"$work/ramjet-smb" gateway -d "$1" --server 127.0.0.1:4450 --allow 10.9.0.0/16 >>"$work/gateway" 2>&1 &
	gateway=$!
}
samba 4450 auto
for device in roce:10.9.0.1 iwarp:10.9.1.1; do
	: >"$work/gateway"
	serve "$device"
	hear 7997
	sleep 1
	kill -9 "$gateway"
	wait "$gateway" 2>/dev/null || true
	sleep 1
	serve "$device"
	hear 7997
	grep -q 're-established' "$work/heard"
	grep -q 'rdma_reads=[1-9].*rdma_writes=[1-9]' "$work/gateway" # data have gone through the RDMA channel
	kill -INT "$gateway"
	wait "$gateway"
	echo "the kernel's client, gateway on $device: a file tree, fio, signed, encrypted, killed and back: good"
done
hear 7998
export RAMJET_SMB_PASSWORD=secret
head -c 5000001 /dev/urandom >"$work/file"
# smb runs a command, twice if need be: ksmbd 6.12 refuses a connection now and then, because the memory of the one before
# still has its name ("Can't init RDMA pool" in the guest's log).
smb() { "$work/ramjet-smb" "$@" || { sleep 1; "$work/ramjet-smb" "$@"; }; }
for mode in plain signed encrypted; do
	hear 7998
	for device in roce:10.9.0.1 iwarp:10.9.1.1; do
		to=//${device##*:}
		to=${to%1}2:5445/files
		for _ in {1..100}; do # until the daemon has told ksmbd all of it
			smb ls -d "$device" -u alice "$to" >"$work/list" 2>&1 && break
			sleep 0.2
		done
		smb put -d "$device" -u alice "$work/file" "$to/$mode-${device%%:*}"
		smb ls -d "$device" -u alice "$to" >"$work/list"
		grep -q " 5000001 .* $mode-${device%%:*}$" "$work/list"
		smb get -d "$device" -u alice "$to/$mode-${device%%:*}" "$work/back"
		cmp "$work/file" "$work/back"
	done
	(: <"/dev/tcp/10.9.0.2/7002")
	hear 7999
	sum=$(cksum <"$work/file")
	[[ $(grep -c "^$sum /tmp/share/$mode-" "$work/heard") == 2 ]]
	if [[ $mode == plain ]]; then # data have gone through the RDMA channel, both ways
		grep -q '^read [1-9]' "$work/heard" && grep -q '^write [1-9]' "$work/heard"
	fi
	echo "ramjet-smb, ksmbd, $mode: the same bytes come back"
done
HOST
"$here/peervm/pair.sh" -t 2400 "$work/guest" bash "$work/host.sh" "$work" "$folder" "$here"
echo "smbguest.sh: all good"
