// SPDX-License-Identifier: Apache-2.0

// Package capture reads RDMA packets out of capture files: pcap and pcapng, compressed with gzip or not, of any
// tool and any stack.
//
// A [Reader] reads the frames of a file. A [Decoder] turns frames into packets: RoCEv2, RoCE v1 and InfiniBand
// with the codecs of wire/ib, iWARP with the codecs of wire/iwarp after putting TCP's segments in order. Both
// stream: memory is bounded for files of any size, and nothing in a file is trusted: a file in which more than
// 128 MiB of TCP's segments wait for others is refused. Frames that are not RDMA are counted and passed over.
//
// Frames may be Ethernet, with VLAN tags or without, Linux cooked captures of both versions, raw IP, the
// loopback interfaces of BSD, InfiniBand as ERF records or bare.
//
// The file formats are those of draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, link types the ones of
// https://www.tcpdump.org/linktypes.html.
//
// # Limits
//
// IP fragments other than the first are not read, and tunnels are not looked into. Of iWARP inside TLS or over SCTP
// only recordings of package trace can be read, which are plain.
package capture
