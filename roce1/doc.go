// SPDX-License-Identifier: Apache-2.0

// Package roce1 is an RDMA device on RoCE v1: the InfiniBand transport in Ethernet frames of type
// 0x8915, with a GRH and without IP (IBTA volume 1, annex A16). It takes raw sockets: Linux, and the
// right to open them (CAP_NET_RAW).
//
// One device is one Ethernet interface. Row 0 of its GID table is the link-local GID made from the MAC
// address, and the others are the interface's IP addresses, IPv4 ones mapped. RoCE v1 is not routed:
// peers are hosts on the same link.
//
// A link-local GID contains the peer's MAC address. For an IP address the device asks the kernel, which gets
// the MAC address by ARP or neighbor discovery; packets that are sent before are lost. Address handles and
// queue pairs wait for the answer when they are given the address.
//
// Packets to one of the device's own GIDs do not leave it.
//
// Every packet has an ICRC of InfiniBand's own form, over its GRH (section 7.8.1), and all 32 bits of
// every received one are verified.
package roce1
