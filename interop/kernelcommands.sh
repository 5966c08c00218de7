#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernelcommands.sh
#
# Runs commands of ramjet in the guest machine on kernel:rxe0 and kernel:siw0, against each other there and
# against roce: and iwarp: on the host: devices, ping, cp and pipe. Every byte is compared. Needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d) out=$(mktemp -d)
trap 'rm -rf "$folder" "$out"' EXIT
(cd "$here/.." && CGO_ENABLED=0 go build -o "$folder/ramjet" ./cmd/ramjet)
cat >"$folder/guest.sh" <<'GUEST'
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
echo "peer: ready"
sleep 2 # until the host listens
R=/peer/ramjet failed=0
try() { "$@" || { echo "FAILED: $*"; failed=1; }; }
{
	$R devices | grep kernel:
	for p in "rxe0 10.9.0.2" "siw0 10.9.1.2"; do
		set -- $p
		timeout 60 $R ping -s -d "kernel:$1" -p 7180 & server=$!
		sleep 3
		try timeout 60 $R ping -c -d "kernel:$1" -a "$2" -p 7180 -V -C 50
		try wait $server
	done
	try timeout 60 $R ping -c -d kernel:rxe0 -a 10.9.0.1 -p 7174 -V -C 50
	try timeout 60 $R ping -c -d kernel:siw0 -a 10.9.1.1 -p 7175 -V -C 50
	dd if=/dev/urandom of=/tmp/file bs=1M count=8 2>/dev/null
	try timeout 120 $R cp -d kernel:rxe0 /tmp/file 10.9.0.1:7185:rxe.bin
	try timeout 120 $R cp -d kernel:siw0 /tmp/file 10.9.1.1:7186:siw.bin
	try timeout 60 $R pipe -d kernel:rxe0 10.9.0.1 7187 </tmp/file
	echo "sum $(sha256sum </tmp/file)"
	echo "status $failed"
} >/tmp/output 2>&1
python3 -c '
import socket
socket.create_connection(("10.9.0.1", 7999)).sendall(open("/tmp/output", "rb").read())
'
sleep 20
GUEST
cat >"$folder/host.sh" <<'HOST'
R=$1/ramjet out=$2
"$R" ping -s -d roce:10.9.0.1 -p 7174 >/dev/null & "$R" ping -s -d iwarp:10.9.1.1 -p 7175 >/dev/null &
"$R" serve -d roce:10.9.0.1 -p 7185 "$out" >/dev/null & one=$!
"$R" serve -d iwarp:10.9.1.1 -p 7186 "$out" >/dev/null & two=$!
timeout 800 "$R" pipe -l -d roce:10.9.0.1 7187 </dev/null >"$out/pipe.bin" & pipe=$!
timeout 800 python3 -c '
import socket, sys
c, _ = socket.create_server(("10.9.0.1", 7999)).accept()
while part := c.recv(1 << 16):
    sys.stdout.buffer.write(part)
' >"$out/said"
wait $pipe
kill $one $two
cat "$out/said"
grep -q '^status 0$' "$out/said" || exit 1
[[ $(grep -c kernel: "$out/said") -ge 2 ]] || { echo "the devices are not listed"; exit 1; }
for f in rxe siw pipe; do
	[[ "sum $(sha256sum <"$out/$f.bin")" == "$(grep '^sum' "$out/said")" ]] || { echo "$f.bin differs"; exit 1; }
done
HOST
"$here/peervm/pair.sh" -t 900 "$folder" bash "$folder/host.sh" "$folder" "$out"
