// SPDX-License-Identifier: Apache-2.0

// Package iwarp has the codecs of iWARP over TCP: MPA's set-up frames, FPDUs and markers
// (RFC 5044, RFC 6581), DDP's headers (RFC 5041), RDMAP's messages (RFC 5040) and its
// extensions (RFC 7306).
//
// Decode methods fill the caller's struct and report whether the bytes are well-formed; Append
// methods are their inverse. Nothing allocates, and nothing keeps a reference to the bytes. The
// package imports the standard library only.
package iwarp
