#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Module valkey against Valkey on the Linux kernel's rxe in the guest machine, both ways: clients in Go on package valkey's
# Dialer against valkey-server there, and valkey-cli --rdma and valkey-benchmark --rdma there against a server in Go on package
# valkey's Listener. Not on siw, which has no WRITE with immediate data: Valkey needs it.
#
#   valkeyguest.sh [FOLDER]     FOLDER is that of valkey.sh, which has built Valkey there: ~/.cache/ramjet-valkey by default
#
# Needs root, and what peervm/build.sh needs.
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-valkey}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $folder/valkey/src/valkey-benchmark ]] || { echo "valkeyguest.sh: no Valkey in $folder: run valkey.sh first" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/guest"
cp "$folder"/valkey/src/valkey-{server,cli,benchmark} "$here/peervm/words.sh" "$work/guest/"
(cd "$here/../valkey" && CGO_ENABLED=0 go build -o "$work/respserver" ./cmd/respserver && CGO_ENABLED=0 go test -c -o "$work/tests" .)

cat >"$work/guest/guest.sh" <<'GUEST'
. /peer/words.sh
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
/peer/valkey-server --save '' --port 0 --rdma-bind 10.9.0.2 --rdma-port 6379 --protected-mode no --dir /tmp >/tmp/server 2>&1 &
for i in $(seq 600); do
	! grep -q "Ready to accept connections rdma" /tmp/server || break
	sleep 0.1
done
# told PORT waits until the host connects.
told() { python3 -c "import socket; socket.create_server(('10.9.0.2', $1)).accept()"; }
# clients: Valkey's programs against a server in Go.
clients() (
	set -ex
	cli="/peer/valkey-cli --rdma -h 10.9.0.1 -p 6380"
	[ "$($cli PING)" = PONG ]
	[ "$($cli SET name value)" = OK ]
	[ "$($cli GET name)" = value ]
	head -c 3000000 /dev/urandom | base64 -w 0 >/tmp/value
	[ "$($cli -x SET large </tmp/value)" = OK ]
	$cli GET large | head -c -1 | cmp - /tmp/value
	/peer/valkey-benchmark --rdma -h 10.9.0.1 -p 6380 -q -c 8 -n 500 -t ping,set,get,incr | tr '\r' '\n' | grep 'requests per second'
	/peer/valkey-benchmark --rdma -h 10.9.0.1 -p 6380 -q -c 2 -n 20 -d 1000000 -t set,get | tr '\r' '\n' | grep 'requests per second'
)
echo "peer: ready"
told 7500
clients >/tmp/output 2>&1
tell 7998 $?
sleep 600
GUEST

cat >"$work/host.sh" <<'HOST'
set -euo pipefail
work=$1
. "$work/guest/words.sh"
echo "== clients in Go, valkey-server on rxe is the server"
RAMJET_VALKEY_SERVER=10.9.0.2:6379 RAMJET_DEVICE=roce:10.9.0.1 "$work/tests" -test.v -test.timeout 10m \
	-test.run '^Test(GoRedis|Pipeline|LargeValue|PubSub|ValkeyGo|IdleClient)$' >"$work/out" || { cat "$work/out"; exit 1; }
grep -E '^--- ' "$work/out"
"$work/respserver" roce:10.9.0.1 :6380 >"$work/server" 2>&1 &
server=$!
trap 'kill "$server"; wait' EXIT
for _ in {1..100}; do
	! grep -q "listening on" "$work/server" || break
	sleep 0.1
done
: <"/dev/tcp/10.9.0.2/7500"
echo "== Valkey's programs on rxe, the server is in Go"
heard 7998 >"$work/heard" || { cat "$work/heard"; exit 1; }
grep -v '^+' "$work/heard"
HOST
"$here/peervm/pair.sh" -t 1500 "$work/guest" bash "$work/host.sh" "$work"
echo "valkeyguest.sh: all good"
