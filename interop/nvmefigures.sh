#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How fast a disk in memory is read by NVMe over RDMA, beside `ramjet perf read` of the same size and depth on the same device,
# and beside the messages of such a read with nothing else: a SEND, a WRITE and a SEND, which bareread moves. The three take
# turns, between two processes each. Prints the medians of reads a second and of the rounds' ratios, and the processor time of a
# read, of both processes together, in µs: other work of the machine changes that less.
#
#   nvmefigures.sh [ROUNDS [KIND...]]     5 rounds of roce, iwarp and shm by default
set -euo pipefail
rounds=${1:-5}
kinds=("${@:2}")
((${#kinds[@]})) || kinds=(roce iwarp shm)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
servers=()
cleanup() {
	((${#servers[@]} == 0)) || kill "${servers[@]}"
	wait
	rm -rf "$work"
}
trap cleanup EXIT
(cd "$here/.." && CGO_ENABLED=0 go build -o "$work/ramjet" ./cmd/ramjet)
(cd "$here/../nvme" && CGO_ENABLED=0 go build -o "$work/" ./cmd/ramjet-nvme ./cmd/bareread)
nqn=nqn.2026-01.io.ramjet:disks

# perf BYTES DEPTH prints READs a second of two processes.
perf() {
	local server rate control=$((20000 + RANDOM % 10000)) # a port that nobody has used a moment ago
	"$work/ramjet" perf read bw -d "$kind:$address.1" -p "$control" >"$work/perf" 2>&1 &
	server=$!
	for _ in {1..100}; do
		if rate=$("$work/ramjet" perf read bw "$address.1" -d "$kind:$address.2" -p "$control" -s "$1" -o "$2" -D 1s --csv 2>"$work/error"); then
			wait "$server"
			tail -n 1 <<<"$rate" | awk -F, '{printf "%.0f\n", $5 * 1e6}'
			return
		fi
		sleep 0.1 # until the server listens
	done
	cat "$work/error" "$work/perf" >&2
	return 1
}
# disk BYTES DEPTH prints reads a second of the disk.
disk() {
	"$work/ramjet-nvme" bench -d "$kind:$address.2" "$address.1:$port" "$nqn" --size "$1" --depth "$2" --time 1s |
		sed 's/.*flight: \([0-9]*\).*/\1/'
}
# bare BYTES DEPTH prints how often their messages are moved.
bare() { "$work/bareread" "$kind:$address.2" "$address.3:$((port + 1))" "$1" "$2" 1s; }
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
# ratios FILE FILE prints the median of the quotients of their lines.
ratios() { paste "$@" | awk '{print $1 / $2}' | median; }
# spent prints the processor time of the servers, and of all that has ended, in ticks of 10 ms.
spent() {
	local pid
	for pid in "${servers[@]}"; do awk '{print $14 + $15}' "/proc/$pid/stat"; done >"$work/spent"
	awk '{print $16 + $17}' "/proc/$$/stat" >>"$work/spent"
	awk '{n += $1} END {print n}' "$work/spent"
}
# measure WHAT: a round of disk, bare or perf; adds to $work/WHAT.rate and $work/WHAT.time.
measure() {
	local before rate
	before=$(spent)
	rate=$("$1" "$bytes" "$depth")
	echo "$rate" >>"$work/$1.rate"
	echo "$(($(spent) - before)) $rate" | awk '{print $1 * 1e4 / $2}' >>"$work/$1.time"
}

printf '%-6s %8s %6s %10s %10s %10s %9s %9s %8s %8s %8s\n' device bytes depth disk/s bare/s READs/s disk/READ bare/READ 'disk µs' 'bare µs' 'READ µs'
for kind in "${kinds[@]}"; do
	address=127.85.$((RANDOM % 200 + 20)) port=$((20000 + RANDOM % 10000))
	"$work/ramjet-nvme" serve -d "$kind:$address.1" --listen ":$port" --any-host memory:64MiB >"$work/$kind" 2>&1 &
	servers+=($!)
	until grep -q "$nqn" "$work/$kind"; do
		kill -0 "${servers[-1]}" || { cat "$work/$kind" >&2; exit 1; }
		sleep 0.1
	done
	"$work/bareread" "$kind:$address.3" ":$((port + 1))" >"$work/$kind-bare" 2>&1 &
	servers+=($!)
	until grep -q listening "$work/$kind-bare"; do
		kill -0 "${servers[-1]}" || { cat "$work/$kind-bare" >&2; exit 1; }
		sleep 0.1
	done
	for case in "4096 1" "4096 128" "131072 16"; do
		read -r bytes depth <<<"$case"
		rm -f "$work"/*.{rate,time}
		for ((i = 0; i < rounds; i++)); do
			for what in disk bare perf; do measure "$what"; done
		done
		printf '%-6s %8d %6d %10.0f %10.0f %10.0f %9.2f %9.2f %8.2f %8.2f %8.2f\n' "$kind" "$bytes" "$depth" "$(median <"$work/disk.rate")" \
			"$(median <"$work/bare.rate")" "$(median <"$work/perf.rate")" "$(ratios "$work"/{disk,perf}.rate)" \
			"$(ratios "$work"/{bare,perf}.rate)" "$(median <"$work/disk.time")" "$(median <"$work/bare.time")" "$(median <"$work/perf.time")"
	done
done
