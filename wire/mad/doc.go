// SPDX-License-Identifier: Apache-2.0

// Package mad encodes and decodes management datagrams: the header that all of
// them have, and the messages of the communication management class, which
// connection managers exchange between their queue pairs 1.
//
// Section numbers are those of the InfiniBand Architecture Specification,
// volume 1 (chapter 12, "Communication Management"; chapter 13, "Management
// Model"; chapter 16, "General Services"), and of annex A11 (RDMA IP CM
// service).
//
// # Shape
//
// A datagram is always [Size] bytes: a [Header], and the message of its
// attribute in the [DataLen] bytes behind it. Each message is a struct with
// two verbs, as in package ib:
//
//	func (m *REQ) Decode(b []byte) bool    // false: b is too short; m is untouched
//	func (m *REQ) Append(b []byte) []byte
//
// Decode wants the message's DataLen bytes, what follows the header. Reserved
// fields are kept, so whatever decodes encodes back to the same bytes; bytes
// after the message, where the datagram was longer, are not looked at.
//
// Private data are arrays: their sizes are fixed, and the wire does not say
// how much of them a program filled.
//
// Nothing here allocates or keeps state, except in String methods.
package mad
