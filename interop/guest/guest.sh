#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the peer machine runs: the control program, which prints "peer: ready" when it listens.

# The default queue, fq_codel, drops what waited for more than 5 ms, which is nothing on this
# machine. What is lost here is lost because a test says so.
echo pfifo_fast >/proc/sys/net/core/default_qdisc
for nic in "$NIC" "$IWNIC"; do
	ip link set "$nic" txqueuelen 10000
	tc qdisc add dev "$nic" root pfifo # and the default takes its place
	tc qdisc del dev "$nic" root
done

# Ramjet in the guest, on devices of the kernel: agent_test.go.
if [ -x /peer/interop.test ]; then
	cp /peer/interop.test /tmp
	(cd /tmp && exec setsid ./interop.test -test.run '^TestAgent$' -agent 0.0.0.0:7479 -test.timeout 0) </dev/null &
fi

exec python3 /peer/peer.py
