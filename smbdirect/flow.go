// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"fmt"
	"math"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// flow is the credits of both directions (MS-SMBD 3.1.1.1, 3.1.5.9).
type flow struct {
	credits int // messages that may be sent
	limit   int // receives that there are
	target  int // receives that the peer wants to have posted, at most limit
	posted  int // receives
	granted int // receives that the peer knows of
}

// request takes note of how many credits the peer wants.
func (f *flow) request(n uint16) { f.target = min(int(n), f.limit) }

// received takes note of a message of the peer.
func (f *flow) received(t *wire.Transfer) error {
	if f.granted == 0 {
		return fmt.Errorf("%w: it sent a message without a credit", ErrProtocol)
	}
	f.granted--
	f.posted--
	f.request(t.CreditsRequested)
	if f.credits += int(t.CreditsGranted); f.credits > math.MaxUint16 {
		return fmt.Errorf("%w: it granted %d credits", ErrProtocol, f.credits)
	}
	return nil
}

// mayPost reports whether a receive is to be posted, if there is one.
func (f *flow) mayPost() bool { return f.posted < f.target }

// grantable returns how many credits can be granted.
func (f *flow) grantable() int { return max(0, min(f.posted, f.target)-f.granted) }

// maySend reports whether a message can be sent. The last credit is for one that grants credits (3.1.5.1).
func (f *flow) maySend() bool { return f.credits > 1 || f.credits == 1 && f.grantable() > 0 }

// due reports whether the peer needs credits promptly.
func (f *flow) due() bool { return f.granted <= f.target/2 && f.grantable() > 0 }

// grant returns the credits to grant in the next message.
func (f *flow) grant() uint16 {
	n := f.grantable()
	f.granted += n
	return uint16(n)
}

// send takes a credit for a message and returns the credits that it grants.
func (f *flow) send() uint16 {
	f.credits--
	return f.grant()
}
