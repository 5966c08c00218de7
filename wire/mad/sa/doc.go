// SPDX-License-Identifier: Apache-2.0

// Package sa encodes and decodes datagrams of subnet administration (IBTA chapter 15): their header,
// the reliable multi-packet protocol that carries tables (RMPP, section 13.6), and the records. The
// attributes that records share with subnet management are in package smp.
//
// # Shape
//
// A datagram is [mad.Size] bytes: a [Header] of [HeaderLen], and a part of a table in the [DataLen]
// bytes behind it, or one record. A table is records one after the other, each padded to a multiple of
// 8 bytes; the header's AttributeOffset says how far they are apart.
//
// A query is a record and a mask: bit n of the mask is set if component n of the record must have the
// value that it has in the query. [Layout] knows the components of each attribute.
//
// Each record is a struct with Decode and Append, as in package mad. Nothing here allocates, except in
// String methods.
package sa
