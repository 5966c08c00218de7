// SPDX-License-Identifier: Apache-2.0

// Package fabric runs an InfiniBand fabric: nodes and cables of internal/engine/link, the management
// agent of each node, and a subnet manager, under one lock, in the system's time or a simulation's. It is what
// hardware is to an adapter's driver.
//
// Programs have a [Seat] at an adapter, several if they want. A seat is its driver's way to the wire:
// packets that are complete from LRH to ICRC, and what the ports' registers say. What arrives is steered
// to seats by queue pair number, as between processes that share an adapter.
//
// Packets are handed over without a copy: a seat fills the fabric's own buffers, and reads what came
// where it lies. A seat that does not take its packets keeps them in the receive buffers of its port, and
// so holds the senders back: nothing is lost.
package fabric
