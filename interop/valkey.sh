#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Module valkey against Valkey itself, both ways, over RoCEv2, iWARP and shared memory: clients in Go and package valkey's
# Dialer against valkey-server with RDMA, and valkey-cli --rdma and valkey-benchmark --rdma, which Valkey has from version 9
# on, against a server in Go on package valkey's Listener. The checker finds of valkey-server what it leaves (docs/check.md), and
# nothing else. Valkey's programs, and its rdma-test, run on Ramjet's libraries, by ramjet run.
#
#   valkey.sh [FOLDER [KIND...]]     FOLDER keeps what is built: ~/.cache/ramjet-valkey by default
#   LARGE=1 valkey.sh                besides, a value of 512 MB: takes 3 GB of memory
#
# Valkey is built from the source package of Debian's suite $SUITE, sid by default, of the mirror $MIRROR, by default the one
# that this machine's apt uses, in a few minutes, once. Needs Debian's
# packages dpkg-dev, make, gcc, g++, pkg-config, libibverbs-dev, librdmacm-dev and debian-archive-keyring, and no root.
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-valkey}
kinds=("${@:2}")
((${#kinds[@]})) || kinds=(roce iwarp shm)
suite=${SUITE:-sid}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)

# build makes $folder/valkey/src/valkey-server, valkey-cli and valkey-benchmark, and tests/rdma/rdma-test. The command of apt verifies the source.
build() {
	rm -rf "$folder/apt" "$folder/valkey"
	mkdir -p "$folder"/apt/lists/partial "$folder/apt/cache"
	local mirror
	mirror=$("$here/mirror.sh" MIRROR)
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$folder/apt/sources.list"
	local options=(-q -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/apt/lists"
		-o "Dir::Cache=$folder/apt/cache")
	apt-get "${options[@]}" update
	(cd "$folder/apt" && apt-get "${options[@]}" source --download-only valkey && dpkg-source --no-check -x valkey_*.dsc ../valkey)
	make -C "$folder/valkey/src" -j"$(nproc)" MALLOC=libc USE_SYSTEMD=no BUILD_LUA=no BUILD_RDMA=yes OPTIMIZATION=-O2 \
		valkey-server valkey-cli valkey-benchmark >"$folder/make.log" 2>&1 || { tail "$folder/make.log" >&2; exit 1; }
	make -C "$folder/valkey/tests/rdma" >/dev/null
}
[[ -x $folder/valkey/tests/rdma/rdma-test ]] || build
# shellcheck source=interop/valkeyserver.sh
. "$here/valkeyserver.sh"
(cd "$root/valkey" && go build -o "$work/respserver" ./cmd/respserver && go test -c -o "$work/tests" .)

# is WANT COMMAND... compares what a program prints.
is() {
	local got
	got=$("${@:2}")
	[[ $got == "$1" ]] || { echo "valkey.sh: ${*:2}: printed \"$got\", not \"$1\"" >&2; exit 1; }
}

# leaves FILE looks at what the checker has found of valkey-server: that it leaves the completion queue, channel and domain of each
# connection, all of those that are still open, and its listener (docs/check.md).
leaves() {
	[[ $(sed -n 's/^ramjet check: \([^:]*\):.*/\1/p' "$1") == leak ]] || return 1
	awk '
		/ are left: / {
			sub(/.* are left: /, "")
			gsub(/[0-9.]/, "")
			objects = split($0, kinds, ", ")
			for (i = 1; i <= objects; i++) left[kinds[i]]++
		}
		END {
			conns = left["cq"]
			exit !(conns > left["qp"] && left["channel"] == conns && left["pd"] == conns && left["mr"] <= 3 * left["qp"] &&
				left["id"] == left["qp"] + 1 && left["cmchannel"] == 1 &&
				objects == 3 * conns + left["mr"] + 2 * left["qp"] + 2)
		}' "$1"
}

host=$((RANDOM % 200 + 20))
for kind in "${kinds[@]}"; do
	address=127.84.$host port=$((20000 + RANDOM % 10000))
	valkey_server "$kind:$address.1" "$port" "$work/$kind-valkey"
	echo "== $kind: clients in Go, $("$valkey/valkey-server" --version | grep -o 'v=[^ ]*') is the server"
	RAMJET_VALKEY_SERVER=$address.1:$port RAMJET_DEVICE=$kind:$address.2 RAMJET_VALKEY_LARGE=${LARGE:+536870912} \
		"$work/tests" -test.v -test.timeout 5m -test.run '^Test(GoRedis|Pipeline|LargeValue|PubSub|ConnectionsCount|ValkeyGo|IdleClient)$' >"$work/out" ||
		{ cat "$work/out" >&2; exit 1; }
	grep -E '^--- |bytes: ' "$work/out"
	is PONG on "$kind:$address.3" "$valkey/valkey-cli" --rdma -h "$address.1" -p "$port" PING
	on "$kind:$address.3" "$valkey/../tests/rdma/rdma-test" --thread 4 -h "$address.1" -p "$port" >"$work/out" ||
		{ cat "$work/out" >&2; echo "valkey.sh: rdma-test failed. It waits for one second at most: a busy host can be why" >&2; exit 1; }
	tail -n 1 "$work/out"

	"$work/respserver" "$kind:$address.4" ":$port" >"$work/$kind-go" 2>&1 &
	servers+=($!)
	says "$work/$kind-go" "listening on"
	echo "== $kind: Valkey's programs, the server is in Go"
	cli=(on "$kind:$address.3" "$valkey/valkey-cli" --rdma -h "$address.4" -p "$port")
	is PONG "${cli[@]}" PING
	is OK "${cli[@]}" SET name value
	is value "${cli[@]}" GET name
	is 3 "${cli[@]}" APPEND digits 123
	head -c 3000000 /dev/urandom | base64 -w 0 >"$work/value"
	is OK "${cli[@]}" -x SET large <"$work/value"
	"${cli[@]}" GET large | head -c -1 | cmp - "$work/value"
	on "$kind:$address.3" "$valkey/valkey-benchmark" --rdma -h "$address.4" -p "$port" -q -c 20 -n 5000 -t ping,set,get,incr,mset |
		tr '\r' '\n' | grep 'requests per second'
	on "$kind:$address.3" "$valkey/valkey-benchmark" --rdma -h "$address.4" -p "$port" -q -c 4 -n 200 -d 1000000 -t set,get |
		tr '\r' '\n' | grep 'requests per second'
	on "$kind:$address.3" "$valkey/valkey-benchmark" --rdma -h "$address.4" -p "$port" -q -c 10 -n 20000 -P 50 -t set,get |
		tr '\r' '\n' | grep 'requests per second'
done

echo "== roce: Valkey's server under the checker"
address=127.85.$host
check=(--check="log=$work/found")
valkey_server "roce:$address.1" "$port" "$work/checked"
server=${servers[-1]}
on "roce:$address.3" "$valkey/valkey-benchmark" --rdma -h "$address.1" -p "$port" -q -c 5 -n 2000 -t ping,set,get | tr '\r' '\n' | grep 'requests per second'
on "roce:$address.3" "$valkey/valkey-cli" --rdma -h "$address.1" -p "$port" SHUTDOWN NOSAVE
status=0
wait "$server" || status=$?
if [[ $status != 66 ]] || ! leaves "$work/found"; then
	echo "valkey.sh: the server ended with $status:" >&2
	cat "$work/found" >&2
	exit 1
fi
echo "valkey.sh: all good"
