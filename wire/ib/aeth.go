// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"fmt"
	"time"
)

// AETH is the acknowledge extended transport header (section 9.3.5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-----------------------------------------------+
//	|   Syndrome    |                      MSN                      |
//	+---------------+-----------------------------------------------+
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits: message sequence number, section 9.7.7.1
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *AETH) Decode(b []byte) bool {
	if len(b) < AETHLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	h.Syndrome = Syndrome(w >> 24)
	h.MSN = w & 0xffffff
	return true
}

// Append appends the header to b.
func (h AETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.Syndrome)<<24|h.MSN&0xffffff)
}

// Syndrome is the first byte of an AETH: the kind and the code of an acknowledgement (section
// 9.7.5).
//
//	 7   6   5   4   3   2   1   0
//	+---+-------+-------------------+
//	| 0 | 0   0 |   credit count    |  ACK
//	| 0 | 0   1 |    timer code     |  RNR NAK
//	| 0 | 1   0 |                   |  reserved
//	| 0 | 1   1 |     NAK code      |  NAK
//	+---+-------+-------------------+
type Syndrome uint8

// NAKCode is why a responder refused a request (section 9.7.5.2).
type NAKCode uint8

// The NAK codes; 5 to 31 are reserved.
const (
	NAKPSNSequenceError       NAKCode = 0
	NAKInvalidRequest         NAKCode = 1
	NAKRemoteAccessError      NAKCode = 2
	NAKRemoteOperationalError NAKCode = 3
	NAKInvalidRDRequest       NAKCode = 4
)

// String returns the code's name in the specification.
func (c NAKCode) String() string {
	switch c {
	case NAKPSNSequenceError:
		return "PSN sequence error"
	case NAKInvalidRequest:
		return "invalid request"
	case NAKRemoteAccessError:
		return "remote access error"
	case NAKRemoteOperationalError:
		return "remote operational error"
	case NAKInvalidRDRequest:
		return "invalid RD request"
	}
	return fmt.Sprintf("reserved NAK code %d", uint8(c))
}

const (
	syndromeKind  Syndrome = 0xe0
	syndromeValue Syndrome = 0x1f
	syndromeACK   Syndrome = 0x00
	syndromeRNR   Syndrome = 0x20
	syndromeNAK   Syndrome = 0x60
)

// CreditCode is the five-bit form of a count of receive credits (section
// 9.7.7.2).
type CreditCode uint8

// CreditsUnlimited is the code of a responder without end-to-end flow control.
const CreditsUnlimited CreditCode = 31

// Acknowledge returns the syndrome of a positive acknowledgement.
func Acknowledge(c CreditCode) Syndrome { return Syndrome(c) & syndromeValue }

// RNRNAK returns the syndrome of a receiver that is not ready. The requester waits for the timer's
// time before it retries.
func RNRNAK(t RNRTimer) Syndrome { return syndromeRNR | Syndrome(t)&syndromeValue }

// NAK returns the syndrome of a refusal.
func NAK(c NAKCode) Syndrome { return syndromeNAK | Syndrome(c)&syndromeValue }

// IsACK reports whether s is a positive acknowledgement.
func (s Syndrome) IsACK() bool { return s&syndromeKind == syndromeACK }

// IsRNR reports whether s is an RNR NAK.
func (s Syndrome) IsRNR() bool { return s&syndromeKind == syndromeRNR }

// IsNAK reports whether s is a NAK other than an RNR NAK.
func (s Syndrome) IsNAK() bool { return s&syndromeKind == syndromeNAK }

// Credits returns the credit code of a positive acknowledgement.
func (s Syndrome) Credits() CreditCode { return CreditCode(s & syndromeValue) }

// Timer returns the timer code of an RNR NAK.
func (s Syndrome) Timer() RNRTimer { return RNRTimer(s & syndromeValue) }

// Code returns the NAK code of a NAK.
func (s Syndrome) Code() NAKCode { return NAKCode(s & syndromeValue) }

// String describes the syndrome.
func (s Syndrome) String() string {
	switch {
	case s.IsACK() && s.Credits() == CreditsUnlimited:
		return "ACK"
	case s.IsACK():
		return fmt.Sprintf("ACK, %d credits", s.Credits().Count())
	case s.IsRNR():
		return "RNR NAK, " + s.Timer().Duration().String()
	case s.IsNAK():
		return "NAK, " + s.Code().String()
	}
	return fmt.Sprintf("reserved syndrome 0x%02x", uint8(s))
}

// Count returns the credits that a code stands for: 0, 1, 2, 3, and from there
// alternately 1 and 1.5 times a power of two up to 32768 (section 9.7.7.2). It
// returns -1 for [CreditsUnlimited].
func (c CreditCode) Count() int {
	switch {
	case c >= CreditsUnlimited:
		return -1
	case c < 2:
		return int(c)
	}
	return int(2|c&1) << (c/2 - 1)
}

// CreditCodeFor returns the largest code whose count is at most n credits.
func CreditCodeFor(n int) CreditCode {
	c := CreditCode(0)
	for c+1 < CreditsUnlimited && (c+1).Count() <= n {
		c++
	}
	return c
}

// RNRTimer is the five-bit code of an RNR NAK's time (section 9.7.5.2.8).
type RNRTimer uint8

// rnrTimes holds the time of each code. Code 0 is the longest; the others grow.
var rnrTimes = [32]time.Duration{
	655360 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 30 * time.Microsecond, 40 * time.Microsecond,
	60 * time.Microsecond, 80 * time.Microsecond, 120 * time.Microsecond, 160 * time.Microsecond,
	240 * time.Microsecond, 320 * time.Microsecond, 480 * time.Microsecond, 640 * time.Microsecond,
	960 * time.Microsecond, 1280 * time.Microsecond, 1920 * time.Microsecond, 2560 * time.Microsecond,
	3840 * time.Microsecond, 5120 * time.Microsecond, 7680 * time.Microsecond, 10240 * time.Microsecond,
	15360 * time.Microsecond, 20480 * time.Microsecond, 30720 * time.Microsecond, 40960 * time.Microsecond,
	61440 * time.Microsecond, 81920 * time.Microsecond, 122880 * time.Microsecond, 163840 * time.Microsecond,
	245760 * time.Microsecond, 327680 * time.Microsecond, 491520 * time.Microsecond,
}

// Duration returns the time that the code stands for.
func (t RNRTimer) Duration() time.Duration { return rnrTimes[t&31] }

// RNRTimerFor returns the code of the shortest time that is at least d, or code 0, the longest
// time, if there is none.
func RNRTimerFor(d time.Duration) RNRTimer {
	for t := RNRTimer(1); t < 32; t++ {
		if rnrTimes[t] >= d {
			return t
		}
	}
	return 0
}
