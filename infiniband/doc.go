// SPDX-License-Identifier: Apache-2.0

// Package infiniband is RDMA devices on an InfiniBand fabric in software: channel adapters, switches and
// cables, with the management agent of every node and a subnet manager (IBTA volume 1, chapters 7 to 9 and
// 13 to 18). No hardware and no privileges are needed.
//
// A [Fabric] runs in one process, which may be the program's own. [Fabric.Open] opens an adapter there.
// [Fabric.Serve] lets other processes of the same user open adapters by [Open], on Linux.
// [Fabric.ServeIBSim] lets programs that know ibsim work on the fabric, such as OpenSM and the diagnostic
// tools.
//
// A device is an adapter with all its ports. Up to 16 programs share an adapter; the top bits of queue pair
// numbers tell them apart. Destinations are LIDs, which the subnet manager assigns; verbs.QP.Endpoint has them.
// Package cm finds them by IP address and asks the subnet administrator for paths: the fabric has a table of
// addresses, 198.18.0.1 for the first adapter.
//
// The fabric loses no packet while cables are in place: a receiver grants credits for its buffers, and a sender
// without credits waits (section 7.9). So a program that receives nothing blocks its peers, and the packets
// behind theirs on the same virtual lane.
//
// Packets in memory have no ICRC. It is computed when they leave memory: into a recording, or over a cable that
// has errors or leads to another host.
package infiniband
