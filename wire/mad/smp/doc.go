// SPDX-License-Identifier: Apache-2.0

// Package smp encodes and decodes subnet management packets: the datagrams by which a subnet manager
// finds the nodes of a subnet and fills their tables, and by which nodes report changes to it.
//
// Section numbers are those of the InfiniBand Architecture Specification, volume 1 (chapter 14,
// "Subnet Management").
//
// # Shape
//
// A packet is always [mad.Size] bytes, an [SMP]. Its attribute is in the [DataLen] bytes of Data. Each
// attribute is a struct with the verbs of package mad:
//
//	func (m *NodeInfo) Decode(b []byte) bool    // false: b is too short; m is untouched
//	func (m *NodeInfo) Append(b []byte) []byte
//
// Append appends the attribute alone, as records of the administrator have it. To fill a packet with
// it, append to the empty start of its data: m.Append(p.Data[:0]).
//
// Values of fields are numbers as on the wire. Reserved fields are kept: packets that decode encode back
// to the same bytes.
//
// Nothing here allocates or keeps state, except in String methods.
package smp
