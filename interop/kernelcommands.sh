#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernelcommands.sh
#
# Runs commands of ramjet in the guest machine on kernel:rxe0 and kernel:siw0, against each other there and against
# roce: and iwarp: on the host, both ways: devices, stat, demo, perf, ping, cp and pipe. And gRPC, by the program of
# examples/grpc. Every byte is compared. Needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d) out=$(mktemp -d)
trap 'rm -rf "$folder" "$out"' EXIT
(cd "$here/.." && CGO_ENABLED=0 go build -o "$folder/ramjet" ./cmd/ramjet)
(cd "$here/../examples/grpc" && CGO_ENABLED=0 go build -o "$folder/echo" ./echo)
cat >"$folder/functions" <<'FUNCTIONS'
failed=0
try() { "$@" || { echo "FAILED: $*"; failed=1; }; }
# listening waits until somebody listens at ADDRESS:PORT of the connection manager.
listening() { for ((i = 0; i < 3000; i++)); do "$R" stat cm_id 2>/dev/null | grep -q "listening $1 " && return; sleep 0.1; done; echo "FAILED: nobody listens at $1"; failed=1; }
# waiting waits until somebody listens at a port of TCP.
waiting() { for ((i = 0; i < 3000; i++)); do grep -qi ":$(printf %04X "$1") [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6 && return; sleep 0.1; done; echo "FAILED: nobody listens at port $1"; failed=1; }
FUNCTIONS
echo 'exec bash /peer/commands.sh' >"$folder/guest.sh"
cat >"$folder/commands.sh" <<'GUEST'
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
echo "peer: ready"
R=/peer/ramjet
. /peer/functions
# told HOST_STEP returns when the host has taken the step.
told() { for ((i = 0; i < 6000; i++)); do [[ -e /peer/$1 ]] && return; sleep 0.1; done; echo "FAILED: the host did not come to $1"; failed=1; }
{
	try $R devices kernel:
	try $R demo -d kernel
	for p in "rxe0 10.9.0.2" "siw0 10.9.1.2"; do
		set -- $p
		timeout 300 $R ping -s -d kernel: -a "$2" -p 7180 & server=$!
		listening "$2:7180"
		try timeout 300 $R ping -c -d kernel: -a "$2" -p 7180 -V -C 50
		try wait $server
	done

	told serving
	try timeout 300 $R ping -c -d kernel: -a 10.9.0.1 -p 7174 -V -C 50
	try timeout 300 $R ping -c -d kernel: -a 10.9.1.1 -p 7175 -V -C 50
	dd if=/dev/urandom of=/tmp/file bs=1M count=8 2>/dev/null
	try timeout 300 $R cp -d kernel: /tmp/file 10.9.0.1:7185:rxe.bin
	try timeout 300 $R cp -d kernel: /tmp/file 10.9.1.1:7186:siw.bin
	try timeout 300 $R pipe -d kernel: 10.9.0.1 7187 </tmp/file
	for p in "10.9.0.1 7190" "10.9.1.1 7191"; do
		set -- $p
		for measure in "send lat" "write bw"; do # the servers are for one client each
			try timeout 300 $R perf $measure -d kernel: -n 200 -p "$2" "$1"
			set -- "$1" $(($2 + 2))
		done
	done
	try timeout 300 /peer/echo -d kernel:rxe0 10.9.0.1
	try timeout 300 /peer/echo -d kernel:siw0 10.9.1.1
	echo "sum $(sha256sum </tmp/file)"

	timeout 600 $R ping -s -P -d kernel:rxe0 -p 7180 >/dev/null & timeout 600 $R ping -s -P -d kernel:siw0 -p 7180 >/dev/null &
	timeout 600 $R serve --read -d kernel:rxe0 /tmp >/dev/null & timeout 600 $R serve --read -d kernel:siw0 /tmp >/dev/null &
	timeout 600 /peer/echo -d kernel:rxe0 >/dev/null & timeout 600 /peer/echo -d kernel:siw0 >/dev/null &
	timeout 600 $R perf read bw -d kernel: -p 7196 & reads=$!
	timeout 600 $R perf send bw -d kernel: -p 7197 & sends=$!
	for a in 10.9.0.2 10.9.1.2; do listening $a:7180; listening $a:7175; listening $a:7485; done
	waiting 7196; waiting 7197
	try $R stat
	touch /peer/guest-serves
	told done
	try wait $reads
	try wait $sends
	echo "status $failed"
} >/tmp/output 2>&1
python3 -c '
import socket, time
while True:
    try:
        s = socket.create_connection(("10.9.0.1", 7999))
        break
    except ConnectionRefusedError: # the host does not listen yet
        time.sleep(0.1)
s.sendall(open("/tmp/output", "rb").read())
'
sleep 300 # until pair.sh ends the guest, as it does when the host has all
GUEST
cat >"$folder/host.sh" <<'HOST'
R=$1/ramjet E=$1/echo out=$2
. "$1/functions"
{
	"$R" ping -s -d roce:10.9.0.1 -p 7174 >/dev/null & "$R" ping -s -d iwarp:10.9.1.1 -p 7175 >/dev/null &
	"$R" serve -d roce:10.9.0.1 -p 7185 "$out" >/dev/null & servers+=($!)
	"$R" serve -d iwarp:10.9.1.1 -p 7186 "$out" >/dev/null & servers+=($!)
	"$E" -d roce:10.9.0.1 >/dev/null & servers+=($!)
	"$E" -d iwarp:10.9.1.1 >/dev/null & servers+=($!)
	port=7190
	for measure in "send lat" "write bw"; do
		timeout 800 "$R" perf $measure -d roce:10.9.0.1 -p $port >/dev/null & timeout 800 "$R" perf $measure -d iwarp:10.9.1.1 -p $((port + 1)) >/dev/null &
		port=$((port + 2))
	done
	timeout 800 "$R" pipe -l -d roce:10.9.0.1 7187 </dev/null >"$out/pipe.bin" &
	for at in 10.9.0.1:7174 10.9.1.1:7175 10.9.0.1:7185 10.9.1.1:7186 10.9.0.1:7485 10.9.1.1:7485 10.9.0.1:7187; do listening $at; done
	for port in 7190 7191 7192 7193; do waiting $port; done
	touch "$PEERVM_PEER/serving"
	for ((i = 0; i < 6000; i++)); do [[ -e $PEERVM_PEER/guest-serves ]] && break; sleep 0.1; done
	for p in "roce:10.9.0.1 10.9.0.2" "iwarp:10.9.1.1 10.9.1.2"; do
		set -- $p
		try timeout 300 "$R" ping -c -d "$1" -a "$2" -p 7180 -V -C 50
		try timeout 300 "$R" cp -d "$1" "$2:file" "$out/from-$2"
		try timeout 300 "$E" -d "$1" "$2"
	done
	try timeout 300 "$R" perf read bw -d roce:10.9.0.1 -n 200 -p 7196 10.9.0.2
	try timeout 300 "$R" perf send bw -d iwarp:10.9.1.1 -n 200 -p 7197 10.9.1.2
	kill "${servers[@]}"
	echo "host status $failed"
} >"$out/host" 2>&1
touch "$PEERVM_PEER/done"
timeout 300 python3 -c '
import socket, sys
s = socket.create_server(("10.9.0.1", 7999))
c, _ = s.accept()
while part := c.recv(1 << 16):
    sys.stdout.buffer.write(part)
' >"$out/said"
cat "$out/said" "$out/host"
grep -q '^status 0$' "$out/said" && grep -q '^host status 0$' "$out/host" || exit 1
[[ $(grep -c '^kernel:.*ACTIVE' "$out/said") -ge 2 ]] || { echo "the devices are not listed"; exit 1; }
[[ $(grep -c '^link kernel:.* comm ramjet' "$out/said") -ge 4 ]] || { echo "ramjet stat does not show the processes"; exit 1; }
for f in rxe.bin siw.bin pipe.bin from-10.9.0.2 from-10.9.1.2; do
	[[ "sum $(sha256sum <"$out/$f")" == "$(grep '^sum' "$out/said")" ]] || { echo "$f differs"; exit 1; }
done
HOST
"$here/peervm/pair.sh" -t 1500 "$folder" bash "$folder/host.sh" "$folder" "$out"
