#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pair.sh [-m MTU] [-t SECONDS] [-p CAPTURE.pcap] [-P CAPTURE.pcap] [-v] GUEST_FOLDER HOST_COMMAND [ARG...]
#
# Boots the peer machine on two private links and runs HOST_COMMAND on the host's end of them.
# Host: 10.9.0.1 and fd09::1 on "tap0", 10.9.1.1 and fd09:1::1 on "tap1", in a network namespace
# of this run's own. Guest: .2 and ::2 on the same links, no other network; rdma_rxe on the
# first as "rxe0", siw on the second as "siw0".
# The guest runs GUEST_FOLDER/guest.sh (the folder is copied to /peer there), and the host
# command starts when that script prints "peer: ready". The command finds the addresses in
# PEERVM_HOST4, PEERVM_HOST6, PEERVM_GUEST4 and PEERVM_GUEST6, those of the second link in
# PEERVM_IWHOST4 and so on, and the folder that is /peer in the guest in PEERVM_PEER.
#
#   -m  the links' MTU (9000, so that a path MTU of 4096 fits)
#   -t  seconds that the host command may take (3000)
#   -p  capture the first link's frames
#   -P  capture the second link's frames
#   -v  print the guest's console at the end; without it, only when the command failed
#
# Exit status: the host command's; 124 or 137 where it took too long; 4 where the guest did not
# come up; 5 where the guest ended first, or the command failed
# and the guest's kernel answers nothing any more. Needs root.
# The guest runs under software emulation: it says what is right, never what is fast.
set -euo pipefail

mtu=9000 limit=3000 verbose=''
declare -A captures=()
while getopts m:t:p:P:v option; do
  case $option in
    m) mtu=$OPTARG ;;
    t) limit=$OPTARG ;;
    p) captures[tap0]=$OPTARG ;;
    P) captures[tap1]=$OPTARG ;;
    v) verbose=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if (($# < 2)); then
  sed -n '3s/^# /usage: /p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
folder=$1
shift

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$("$here/build.sh") || exit 4
[[ -c /dev/net/tun ]] || { echo "pair.sh: no /dev/net/tun: load the module tun" >&2; exit 4; }

ns=peervm-$$
share=$(mktemp -d)
cp -r "$folder/." "$share/"
console=$share/console.log
monitor=$share/monitor
: >"$console"
children=()
# shellcheck disable=SC2317 # called by the trap
finish() {
  set +e # what has ended by itself must not keep the rest
  ((${#children[@]})) && kill "${children[@]}" 2>/dev/null && kill -CONT "${children[@]}" 2>/dev/null # also what somebody has stopped
  wait
  ip netns del "$ns" 2>/dev/null
  rm -rf "$share"
}
trap finish EXIT
trap 'exit 130' INT TERM
on() { ip netns exec "$ns" "$@"; }
# alive reports whether the guest's kernel still answers, for which it needs none of its programs.
alive() { ip netns exec "$ns" timeout 60 bash -c 'exec 3<>/dev/tcp/10.9.0.2/7471' 2>/dev/null; }
# registers shows where the guest's processor is.
registers() {
  timeout 10 python3 - "$monitor" <<'PYTHON' >&2
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"info registers\n")
time.sleep(1)
print(s.recv(1 << 16).decode(errors="replace").replace("\r", ""))
PYTHON
}
show_console() { tr -d '\r' <"$console" | sed 's/^/guest| /' >&2; }

ip netns add "$ns"
on ip link set lo up
link() { # INTERFACE ADDRESS ADDRESS6
  on ip tuntap add dev "$1" mode tap
  # The queue holds a message of 4 MiB: UC has nothing else to wait for the slow guest.
  on ip link set "$1" mtu "$mtu" txqueuelen 10000 up
  on ip addr add "$2/24" dev "$1"
  on ip -6 addr add "$3/64" dev "$1" nodad
}
link tap0 10.9.0.1 fd09::1
link tap1 10.9.1.1 fd09:1::1
for tap in "${!captures[@]}"; do
  ip netns exec "$ns" tcpdump -q -s 0 -U --immediate-mode -Z root -i "$tap" -w "${captures[$tap]}" 2>/dev/null &
  children+=($!)
done

# no_timer_check: on a busy host the emulated timer is late, and the kernel would take it for broken.
ip netns exec "$ns" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -smp 1 -nographic -no-reboot \
  -kernel "$image/vmlinuz" -initrd "$image/initrd.gz" \
  -append "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check ADDR=10.9.0.2 ADDR6=fd09::2 IWADDR=10.9.1.2 IWADDR6=fd09:1::2 MTU=$mtu" \
  -drive "file=$image/disk.img,format=raw,if=virtio,snapshot=on" \
  -netdev tap,id=n0,ifname=tap0,script=no,downscript=no \
  -device "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01,romfile=,host_mtu=$mtu" \
  -netdev tap,id=n1,ifname=tap1,script=no,downscript=no \
  -device "virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02,romfile=,host_mtu=$mtu" \
  -device virtio-rng-pci -monitor "unix:$monitor,server=on,wait=off" \
  -virtfs "local,path=$share,mount_tag=peer,security_model=none" </dev/null >"$console" 2>&1 &
vm=$!
children+=("$vm")
for ((i = 0; i < 3000; i++)); do
  grep -q 'peer: ready' "$console" && break
  kill -0 "$vm" 2>/dev/null || break
  sleep 0.1
done
if ! grep -q 'peer: ready' "$console"; then
  show_console
  exit 4
fi

export PEERVM_PEER=$share PEERVM_HOST4=10.9.0.1 PEERVM_HOST6=fd09::1 PEERVM_GUEST4=10.9.0.2 PEERVM_GUEST6=fd09::2
export PEERVM_IWHOST4=10.9.1.1 PEERVM_IWHOST6=fd09:1::1 PEERVM_IWGUEST4=10.9.1.2 PEERVM_IWGUEST6=fd09:1::2
status=0 begin=$SECONDS
ip netns exec "$ns" timeout -k 5 "$limit" "$@" <&0 &
command=$!
children+=("$command")
ended=''
wait -n -p ended "$command" "$vm" || status=$?
if [[ $ended != "$command" ]]; then # it would wait for a guest that is not there
  show_console
  echo "pair.sh: the guest has ended before the command" >&2
  exit 5
fi
if ((status == 124 || status == 137)) && ((SECONDS - begin >= limit)); then # timeout's TERM, or its KILL
  echo "pair.sh: ended $1, which did not end within $limit seconds: -t gives it more" >&2
fi
if [[ $status != 0 || -n $verbose ]]; then show_console; fi
if [[ $status != 0 ]] && ! alive; then
  echo "pair.sh: the command ended with $status, and the guest's kernel answers nothing any more. Its processor is at:" >&2
  registers || echo "pair.sh: QEMU's monitor does not answer either" >&2
  exit 5
fi
exit "$status"
