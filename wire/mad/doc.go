// SPDX-License-Identifier: Apache-2.0

// Package mad encodes and decodes management datagrams: their common header, the attributes that
// classes share ([ClassPortInfo], [Notice]), and the messages of the communication management class,
// which connection managers exchange between their queue pairs 1. Packages smp and pm below it have
// the attributes of subnet management and of performance management.
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
// Decode takes the message's DataLen bytes, which follow the header. Reserved fields are kept, so
// every message that decodes encodes back to the same bytes. Bytes after the message, if the datagram was
// longer, are ignored.
//
// Private data is an array: its size is fixed, and the message does not say how much of it a program
// has filled.
//
// Nothing here allocates or keeps state, except in String methods.
package mad
