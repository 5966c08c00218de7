#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# marking.sh FOLDER [MARKING.PY'S FLAGS]
#
# Measures DCQCN, Swift and the default window beside TCP with cubic and BBR on a path whose bottleneck marks, for the
# table and the plot of docs/congestion.md: two network namespaces of this host, and the guest machine as the router
# between them, with tbf and red of its kernel on the way to the receiver. The guest runs under software emulation, so
# the bottleneck is slow: 10 Mbit/s by default. FOLDER gets the samples of the queue, and the table. By hand; needs
# root, iperf3, BBR in this host's kernel (tcp_bbr), and what peervm/build.sh needs.
set -euo pipefail
[[ $# -ge 1 ]] || { echo "usage: $0 FOLDER [--rate MBIT] [--seconds SECONDS] [--only NAME]..." >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v iperf3 >/dev/null || { echo "$0: needs iperf3" >&2; exit 2; }
grep -q bbr /proc/sys/net/ipv4/tcp_available_congestion_control || modprobe tcp_bbr
image=$("$here/peervm/build.sh")
release=$(sed -n 's/^linux //p' "$image/manifest")

# The image has neither tbf nor red: they come from the package of its kernel.
kernel=${MARKING_KERNEL:-$HOME/.cache/ramjet-nvme/kernel} # nvme.sh has unpacked it
modules=$kernel/lib/modules/$release/kernel/net/sched
[[ -f $modules/sch_red.ko.xz ]] || { echo "$0: no $modules/sch_red.ko.xz: run nvme.sh once, or set MARKING_KERNEL" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/guest"
for module in sch_tbf sch_red; do xz -dc "$modules/$module.ko.xz" >"$work/guest/$module.ko"; done
(cd "$here/.." && CGO_ENABLED=0 go build -trimpath -o "$work/ramjet" ./cmd/ramjet)
cp "$here/marking.py" "$work/guest/"
cat >"$work/guest/guest.sh" <<'GUEST'
insmod /peer/sch_tbf.ko && insmod /peer/sch_red.ko || exit 1
echo 1 >/proc/sys/net/ipv4/ip_forward
tc qdisc replace dev "$NIC" root pfifo limit 10000 # the way of acknowledgements is never full
echo "peer: ready"
exec python3 /peer/marking.py --router "$IWNIC"
GUEST
# All of it goes before what else this host does: a router that waits for a processor is a slower link.
PATH=$work:$PATH chrt --rr 1 "$here/peervm/pair.sh" -m "${MARKING_MTU:-1500}" "$work/guest" python3 "$here/marking.py" --out "$out" "$@"
