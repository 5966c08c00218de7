#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# UCX over Ramjet beside UCX over TCP, and MPI on both, between two network namespaces that are joined by a pair of virtual
# interfaces with an MTU of 9000. Both run in turns, so that a busy machine concerns both alike. Nothing is set in UCX but
# the transports. Needs root and Debian's packages ucx-utils, openmpi-bin, libopenmpi-dev, and gcc.
#
#   ucxfigures.sh [RUNS]       RUNS of each pair, 5 by default
#   PRIORITY=1 ucxfigures.sh   what is measured goes before everything else on the machine
#
# A line for each figure: the medians over Ramjet and TCP, the median of the ratios, the least and the greatest. A ratio above 1
# means that Ramjet is faster. bare_bw is the bound: packets of RoCEv2 without a
# protocol, beside TCP (on x86). Progress and the load go to standard error.
set -euo pipefail
runs=${1:-5}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
a=rjfig$$a b=rjfig$$b
cleanup() {
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	rm -rf "$folder"
}
trap cleanup EXIT
(cd "$here/.." && CGO_ENABLED=0 go build -o "$folder/ramjet" ./cmd/ramjet)
"$here/../cabi/build.sh" "$folder/lib" >/dev/null
gcc -O3 -msse4.2 -o "$folder/bare" "$here/testdata/bare.c"
mpicc.openmpi -O2 -o "$folder/times" "$here/../cabi/programs/testdata/mpi/times.c"

ip netns add "$a"
ip netns add "$b"
ip link add left netns "$a" type veth peer name right netns "$b"
ip -n "$a" addr add 192.0.2.1/24 dev left
ip -n "$b" addr add 192.0.2.2/24 dev right
ip -n "$a" link set left mtu 9000 up
ip -n "$b" link set right mtu 9000 up
ip -n "$a" link set lo up
ip -n "$b" link set lo up
# The kernel tells of a carrier after a moment, and until then the ports are down.
until ip -n "$a" link show left | grep -q 'state UP' && ip -n "$b" link show right | grep -q 'state UP'; do sleep 0.1; done

# on NAMESPACE ADDRESS KIND PROGRAM... runs a program over Ramjet or TCP, under a name of its own for the host, by which
# MPI tells hosts apart.
cat >"$folder/on" <<ON
#!/bin/bash
namespace=\$1 address=\$2 kind=\$3
shift 3
[[ -z \${PRIORITY:-} ]] || { echo -20 >/proc/\$\$/autogroup; renice -n -20 \$\$ >/dev/null; }
[[ \$kind == tcp ]] || set -- "$folder/ramjet" run --libs "$folder/lib" -d "roce:\$address" -- "\$@"
exec ip netns exec "\$namespace" unshare --uts bash -c 'hostname "\$0"; exec "\$@"' "\$namespace" "\$@"
ON
# agent HOST COMMAND stands for ssh.
cat >"$folder/agent" <<AGENT
#!/bin/bash
host=\$1
shift
namespace=$b
[[ \$host == 192.0.2.2 ]] || namespace=$a
exec setsid -w "$folder/on" "\$namespace" "\$host" "\$FIGURES_KIND" bash -c "\$*"
AGENT
chmod +x "$folder/on" "$folder/agent"

transports() { if [[ $1 == tcp ]]; then echo tcp,self; else echo rc_verbs,ud_verbs,self; fi; }

# perftest KIND TEST SIZE COUNT prints "TEST SIZE VALUE": MB/s, or µs of a latency.
perftest() {
	local kind=$1 test=$2 size=$3 count=$4 port=$((20000 + RANDOM % 10000)) server
	UCX_TLS=$(transports "$kind")
	export UCX_TLS
	setsid -w "$folder/on" "$b" 192.0.2.2 "$kind" ucx_perftest -p "$port" >/dev/null 2>&1 &
	server=$!
	until ip netns exec "$b" ss -Hltn "sport = :$port" | grep -q .; do sleep 0.1; done
	setsid -w "$folder/on" "$a" 192.0.2.1 "$kind" ucx_perftest 192.0.2.2 -p "$port" -t "$test" -s "$size" -n "$count" -w 100 2>/dev/null |
		awk -v test="$test" -v size="$size" '/Final/ { print test, size, (test ~ /lat/ ? $3 : $6) }'
	wait "$server" || true
}

# bare KIND MIBS prints what bare sockets do: UDP with a CRC at both ends, the bound of Ramjet, or TCP.
bare() {
	local socket=tcp port=$((20000 + RANDOM % 10000)) receiver sockets=-Hltn
	[[ $1 == tcp ]] || socket=udp sockets=-Hlun
	setsid -w "$folder/on" "$b" 192.0.2.2 tcp "$folder/bare" "$socket" receive 192.0.2.2 "$port" "$2" &
	receiver=$!
	until ip netns exec "$b" ss "$sockets" "sport = :$port" | grep -q .; do sleep 0.1; done
	setsid -w "$folder/on" "$a" 192.0.2.1 tcp timeout 60 "$folder/bare" "$socket" send 192.0.2.2 "$port" "$2" |
		awk '{ print "bare_bw", 1048576, $1 }' || kill "$receiver" # a datagram was lost
	wait "$receiver" || true
}

# mpi KIND RANKS prints the lines of the program.
mpi() {
	UCX_TLS=$(transports "$1") FIGURES_KIND=$1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$folder \
		setsid -w "$folder/on" "$a" 192.0.2.1 "$1" mpirun.openmpi --oversubscribe -n "$2" --host "192.0.2.1:$(($2 / 2)),192.0.2.2:$(($2 / 2))" \
		--mca plm_rsh_agent "$folder/agent" --mca oob_tcp_if_include 192.0.2.0/24 --mca btl ^openib \
		--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ^ucx -x UCX_TLS "$folder/times" 2>"$folder/errors" |
		sed "s/^/$2_ranks_/" || { head -n 3 "$folder/errors" >&2; return 1; }
}

measure() {
	perftest "$1" tag_lat 8 20000
	perftest "$1" tag_bw 4096 150000
	perftest "$1" tag_bw 16384 60000
	perftest "$1" tag_bw 65536 15000
	perftest "$1" tag_bw 1048576 1000
	bare "$1" 3000
	mpi "$1" 2
	mpi "$1" 4
}

for ((i = 1; i <= runs; i++)); do
	echo "run $i of $runs, load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
	measure ramjet | sed "s/^/$i ramjet /" || echo "run $i over Ramjet did not end" >&2
	measure tcp | sed "s/^/$i tcp /" || echo "run $i over TCP did not end" >&2
done >"$folder/figures"
python3 - "$folder/figures" <<'PY'
import statistics, sys

found = {}
for run, kind, what, size, value in (line.split() for line in open(sys.argv[1])):
    found.setdefault((what, int(size)), {}).setdefault(kind, {})[run] = float(value)
for (what, size), by in found.items():
    ours, tcp = by.get("ramjet", {}), by.get("tcp", {})
    both = sorted(ours.keys() & tcp.keys())
    if not both:
        print(f"{what:24} {size:8}  one of the two did not end")
        continue
    # Times are better if they are short, rates if they are high.
    ratios = [tcp[r] / ours[r] if "bw" not in what else ours[r] / tcp[r] for r in both]
    median = lambda d: statistics.median(d[r] for r in both)
    print(f"{what:24} {size:8}  {median(ours):10.2f} {median(tcp):10.2f}  {statistics.median(ratios):5.2f}  {min(ratios):.2f} to {max(ratios):.2f}, {len(both)} runs")
PY
