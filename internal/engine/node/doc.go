// SPDX-License-Identifier: Apache-2.0

// Package node has an InfiniBand node as its subnet sees it: identity, ports, and the tables that a
// subnet manager fills (IBTA chapters 7, 14 and 18). The link layer works by it
// (internal/engine/link), and the management agent reads and writes it (internal/engine/sma).
//
// Nothing here has a lock, a clock or a goroutine.
package node
