#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel.sh DEVICE [TEST_FLAG...]
#
# Runs the tests of package kernel in the guest machine, on its device rxe0 or siw0: the device is the kernel's,
# and the libraries are rdma-core's. The flags go to the tests, as "-test.v" or "-test.run=TestConformanceKernel/MR".
# Needs root.
set -euo pipefail
[[ $# -ge 1 ]] || { echo "usage: $0 DEVICE [TEST_FLAG...]" >&2; exit 2; }
device=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$here/.." && CGO_ENABLED=0 go test -c -o "$folder/kernel.test" ./kernel)
printf '%q ' "$@" >"$folder/flags"
echo "$device" >"$folder/device"
cat >"$folder/guest.sh" <<'GUEST'
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
echo "peer: ready"
cd /tmp
eval "RAMJET_KERNEL_DEVICE=$(cat /peer/device) /peer/kernel.test -test.timeout=1200s $(cat /peer/flags)" >/peer/output 2>&1
status=$?
python3 - "$status" <<'PYTHON'
import socket, sys
s = socket.create_connection(("10.9.0.1", 7999))
s.sendall(bytes([int(sys.argv[1])]) + open("/peer/output", "rb").read())
PYTHON
sleep 300 # until pair.sh ends the guest, as it does when the host has all
GUEST
# A guest whose kernel has stopped is not waited for.
"$here/peervm/pair.sh" -t 1500 "$folder" python3 -c '
import socket, sys
l = socket.create_server(("10.9.0.1", 7999))
l.settimeout(10)
silent = 0
while True:
    try:
        c, _ = l.accept()
        break
    except TimeoutError:
        try:
            socket.create_connection(("10.9.0.2", 7471), 10).close()
            silent = 0
        except OSError:
            silent += 1
        if silent == 6:
            sys.exit("kernel.sh: the guest does not answer any more")
c.settimeout(60)
b = b""
while part := c.recv(1 << 16):
    b += part
sys.stdout.buffer.write(b[1:])
sys.exit(b[0])
'
