// SPDX-License-Identifier: Apache-2.0

// Package wire has the codecs of SMB Direct: the messages of MS-SMBD 2.2, and the buffer descriptors by which SMB2
// requests name memory. All fields are little-endian. Sections are sections of MS-SMBD.
//
// Decoders check lengths, and alignment and bounds of a message's offsets and lengths. Whether a value suits the
// connection is for package smbdirect to check.
package wire
