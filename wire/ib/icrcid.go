// SPDX-License-Identifier: Apache-2.0

package ib

import "hash/crc32"

// Verified is how far a packet's ICRC was verified.
type Verified uint8

// The outcomes of [PseudoHeader.Verify].
const (
	// NotVerified: the packet was corrupted, or belongs to another flow.
	NotVerified Verified = iota
	// VerifiedSolved: correct for one IPv4 identification, which was not the predicted one. Finding
	// it used 16 of the 32 bits, so a corrupted packet passes with probability 2^-16.
	VerifiedSolved
	// VerifiedWhole: all 32 bits are correct. Over IPv4 the identification is the predicted one.
	VerifiedWhole
)

// A socket does not show the IPv4 identification of received packets, and the ICRC covers it. Let r
// be the difference of the computed CRC, under a guess of the identification, and the received one.
// A CRC maps a difference of messages e(x) to e(x)·x^32 mod P. If only the identification differs
// from the guess, by d(x) of degree below 16, and n bytes follow it under the CRC, then
//
//	r = d(x) · x^(8n+32) mod P   and so   d = r · x^-(8n+32) mod P
//
// (x has an inverse, because P has a constant term). Of the 2^32 values of r, exactly 2^16 give a d
// of degree below 16: all others are corruption. If r is 0 the guess was right, and then no bits
// were used to solve for it.
//
// A packet verified whole (a right guess) has the full guarantees of CRC-32. A solved one does not:
// some corruptions, one in 2^16 of random ones, look like another identification.

// afterID is how many bytes follow the identification in the IP and UDP headers.
const afterID = ipv4PseudoLen - (ipv4IDAt + 2)

// maxTransport limits a packet from BTH to pad: a payload of MaxMTU after the largest headers.
const maxTransport = MaxMTU + BTHLen + XRCETHLen + AtomicETHLen

// polyIEEE is P without x^32, in the reflected form of hash/crc32: the top bit
// is the coefficient of x^0.
const polyIEEE = crc32.IEEE

// unshift holds x^-(8n+32) mod P for each length from the identification to the
// end of the packet or its ICRC; packets are multiples of four bytes long.
var unshift = func() (t [(maxTransport+ICRCLen)/4 + 1]uint32) {
	v := divX(1<<31, afterID*8+32) // 1<<31 is x^0
	for i := range t {
		t[i] = v
		v = divX(v, 32)
	}
	return t
}()

// divX returns v·x^-n mod P.
func divX(v uint32, n int) uint32 {
	for range n {
		// The coefficient of x^0 must vanish before the division: add P, whose x^32
		// becomes the new x^31.
		if v&(1<<31) != 0 {
			v = (v^polyIEEE)<<1 | 1
		} else {
			v <<= 1
		}
	}
	return v
}

// mulP returns a·b mod P.
func mulP(a, b uint32) uint32 {
	// Integer multiplication of operands with only every fourth bit set is carry-less
	// multiplication in every fourth bit: at most eight ones meet, so no carry reaches the next
	// one.
	const m = 0x1111_1111
	a0, a1, a2, a3 := uint64(a&m), uint64(a&(m<<1)), uint64(a&(m<<2)), uint64(a&(m<<3))
	b0, b1, b2, b3 := uint64(b&m), uint64(b&(m<<1)), uint64(b&(m<<2)), uint64(b&(m<<3))
	const w = 0x1111_1111_1111_1111
	p := (a0*b0^a1*b3^a2*b2^a3*b1)&w |
		(a0*b1^a1*b0^a2*b3^a3*b2)&(w<<1) |
		(a0*b2^a1*b1^a2*b0^a3*b3)&(w<<2) |
		(a0*b3^a1*b2^a2*b1^a3*b0)&(w<<3)
	// The reflected product has x^0 in bit 62; moved to bit 63, its low half holds
	// x^32 and up. Four bytes of a CRC without its inversions reduce it.
	p <<= 1
	v, hi := uint32(p), uint32(p>>32)
	for range 4 {
		v = crc32.IEEETable[byte(v)] ^ v>>8
	}
	return hi ^ v
}

// residue is the CRC-32 of any message with its CRC-32 appended.
const residue = 0x2144df1c

// Verify checks the ICRC of a packet, from its BTH to its ICRC, both included. Over IPv4,
// predictedID is tried first: for rxe as a sender the last packet's plus one, for a GRO train the
// last segment's plus one. It returns the identification that the packet has if its ICRC is
// correct. Over IPv6 there is none, and a packet is either verified whole or not at all.
func (f *PseudoHeader) Verify(transport []byte, predictedID uint16) (id uint16, how Verified) {
	n := len(transport) - ICRCLen
	if n < BTHLen || n > maxTransport || n&3 != 0 {
		return 0, NotVerified
	}
	seed := f.Seed(udpLen+len(transport), predictedID)
	// The CRC of a message followed by its own CRC is always the same. A difference before them
	// passes through the four bytes of the CRC as through any others. Full packets are then a
	// multiple of 16 bytes long, which hash/crc32 processes in one go.
	return f.judge(ICRCHeader(seed, transport)^residue, len(transport), predictedID)
}

// judge interprets the residual r of a packet whose CRC covers n bytes from the BTH on.
func (f *PseudoHeader) judge(r uint32, n int, predictedID uint16) (id uint16, how Verified) {
	if r == 0 {
		return predictedID, VerifiedWhole
	}
	if f.ipv6 {
		return 0, NotVerified
	}
	diff, ok := solveID(r, n)
	if !ok {
		return 0, NotVerified
	}
	return predictedID ^ diff, VerifiedSolved
}

// solveID returns the difference of identifications that explains the residual
// r of a packet whose CRC covers n bytes from the BTH on, if one does.
func solveID(r uint32, n int) (diff uint16, ok bool) {
	d := mulP(r, unshift[n/4])
	// Degree below 16 is the top half of the reflected form. Its first byte on the wire has the
	// higher powers.
	return uint16(d>>16)<<8 | uint16(d>>24), d&0xffff == 0
}
