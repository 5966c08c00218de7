// SPDX-License-Identifier: Apache-2.0

// Package umad sends and receives management datagrams, as libibumad does: for subnet managers, performance
// agents, clients of a subnet administrator and other management programs. Connections need package cm alone.
package umad
