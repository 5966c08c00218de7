// SPDX-License-Identifier: Apache-2.0

// Package pm encodes and decodes the datagrams of performance management: the counters of ports.
//
// Section numbers are those of the InfiniBand Architecture Specification, volume 1 (section 16.1,
// "Performance Management").
//
// # Shape
//
// A datagram is always [mad.Size] bytes: a [mad.Header], [DataOffset] - [mad.HeaderLen] reserved bytes,
// and the attribute. Attributes are structs with the verbs of package mad:
//
//	func (m *PortCounters) Decode(b []byte) bool    // false: b is too short; m is untouched
//	func (m *PortCounters) Append(b []byte) []byte
//
// Reserved fields are kept: attributes that decode encode back to the same bytes. Nothing here allocates or
// keeps state.
package pm
