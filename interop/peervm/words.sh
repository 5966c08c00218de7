# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# words.sh: the guest tells the host how it went. Sourced by guest.sh, which calls tell, and by a host command of pair.sh, which
# calls heard; a copy of it is in the folder of both.

# tell PORT STATUS tells the host: the status, and what is in /tmp/output.
tell() {
	python3 - "$1" "$2" <<'PYTHON'
import socket, sys, time
for _ in range(600):
    try:
        s = socket.create_connection(("10.9.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.1)
s.sendall(bytes([int(sys.argv[2])]) + open("/tmp/output", "rb").read())
PYTHON
}

# heard PORT [COUNT] waits until the guest has told so often, once by default, and prints its outputs. It fails at a status that
# is not 0.
heard() {
	python3 - "$1" "${2:-1}" <<'PYTHON'
import socket, sys
l = socket.create_server(("10.9.0.1", int(sys.argv[1])))
l.settimeout(900)
for _ in range(int(sys.argv[2])):
    c, _ = l.accept()
    c.settimeout(60)
    b = b""
    while part := c.recv(1 << 16):
        b += part
    sys.stdout.buffer.write(b[1:])
    if b[0] != 0:
        sys.stdout.flush()
        sys.exit("the guest's command failed with status %d" % b[0])
PYTHON
}
