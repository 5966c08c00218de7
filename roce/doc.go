// SPDX-License-Identifier: Apache-2.0

// Package roce is an RDMA device on RoCEv2: the InfiniBand transport in UDP datagrams to
// port 4791 (IBTA volume 1, annex A17), over an ordinary socket, without privileges.
//
// One device is one local address. Its GID table has that address, as an IPv6 address or
// an IPv4 address mapped into one.
//
// # What the invariant CRC guarantees here
//
// Every packet carries an ICRC, and every received ICRC is checked. Over IPv4 the ICRC covers the
// IP header's identification field, which a socket sees of packets that it sends but not of packets that
// it receives. The CRC is linear, so the field can be solved for. The device predicts the
// identification from the packets before it: peers count packets or sends, or start each send at 0.
// If the prediction holds, all 32 bits of the ICRC are verified. If it does not, 16 bits serve to
// find the field, and the other 16 verify the packet. Counters tell how many packets were verified
// in which way. IPv6 has no such field.
package roce
