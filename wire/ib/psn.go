// SPDX-License-Identifier: Apache-2.0

package ib

// PSN is a packet sequence number: 24 bits, always below 2^24 (section 9.2). Numbers wrap, so they
// are ordered by the shorter way around the circle and in no other way: use Before, After and Sub,
// never < and -.
type PSN uint32

// PSNMask has the 24 bits of a PSN.
const PSNMask PSN = 1<<24 - 1

// Add returns the number n packets after p, or before it if n is negative.
func (p PSN) Add(n int) PSN { return (p + PSN(n)) & PSNMask }

// Next returns the number that follows p.
func (p PSN) Next() PSN { return (p + 1) & PSNMask }

// Sub returns the signed distance from q to p, in [-2^23, 2^23): q.Add(p.Sub(q))
// is p.
func (p PSN) Sub(q PSN) int { return int(int32((p-q)<<8) >> 8) }

// Before reports whether p is in the half of the circle that precedes q. Of two numbers exactly
// 2^23 apart, each is before the other; the windows of the specification never hold both (section
// 9.7).
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// After reports whether p is in the half of the circle that follows q.
func (p PSN) After(q PSN) bool { return p.Sub(q) > 0 }
