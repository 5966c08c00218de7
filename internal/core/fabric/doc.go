// SPDX-License-Identifier: Apache-2.0

// Package fabric runs an InfiniBand fabric: nodes and cables of internal/engine/link, the management
// agent of each node, and a subnet manager, under one lock, in real or simulated time.
//
// A program attaches to an adapter, which several may share. An [Attachment] is to a driver as hardware
// is: it sends and receives complete packets, LRH to ICRC, and reads the state of the ports. Arriving
// packets are steered to attachments by the top bits of the destination queue pair number.
//
// Packets are passed without a copy: a driver fills buffers of the fabric, and reads arrivals in place. Packets
// that it has not released occupy its port's receive buffers, so the port grants no credits for them and the
// senders wait: nothing is lost.
package fabric
