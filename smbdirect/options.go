// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Ports of SMB Direct. iWARP has one of its own, because it shares TCP's ports with SMB over TCP.
const (
	Port      = 445
	PortIWARP = 5445
)

// DefaultPort returns the port of SMB Direct for a device.
func DefaultPort(dev *verbs.Device) uint16 {
	if dev.Query().Transport == verbs.TransportIWARP {
		return PortIWARP
	}
	return Port
}

// Defaults of Options.
const (
	DefaultCredits           = 255
	DefaultMessageSize       = 8 << 10
	DefaultMaxFragmentedSize = 1<<20 + 64<<10 // enough for a READ of 1 MiB
	DefaultMaxReadWriteSize  = 8 << 20
	DefaultNegotiateDial     = 120 * time.Second
	DefaultNegotiateAccept   = 5 * time.Second
	DefaultIdle              = 120 * time.Second
	DefaultIdleResponse      = 5 * time.Second
	DefaultLinger            = 5 * time.Second
)

// Options tune connections. Zero values stand for the defaults. A connection takes SendCredits × MaxSendSize +
// RecvCredits × MaxReceiveSize bytes of registered memory.
type Options struct {
	SendCredits int // messages in flight to the peer, as far as it grants them; default DefaultCredits
	RecvCredits int // messages in flight from the peer; default DefaultCredits

	MaxSendSize       int // bytes of the longest message to the peer, headers included; default DefaultMessageSize
	MaxReceiveSize    int // bytes of the longest message from the peer, headers included; default DefaultMessageSize
	MaxFragmentedSize int // bytes of the longest message from the peer, in fragments; default DefaultMaxFragmentedSize
	MaxReadWriteSize  int // bytes of the longest transfer by RDMA that a server makes; default DefaultMaxReadWriteSize

	// Negotiate limits how long the negotiation takes (MS-SMBD 3.1.2.1). Default DefaultNegotiateDial on the side that
	// dials, DefaultNegotiateAccept on the side that accepts.
	Negotiate time.Duration

	// Idle is how long the peer may send nothing until it is asked to, and IdleResponse how long it may take then
	// until it is given up. A peer that grants no credits for as long is given up, too. Defaults DefaultIdle and
	// DefaultIdleResponse.
	Idle, IdleResponse time.Duration

	// Linger limits how long Close waits for the peer's device to receive the written data. Default DefaultLinger.
	Linger time.Duration
}

const (
	minCredits = 8        // with fewer, granting them takes as many messages as using them
	maxSize    = 16 << 20 // of anything
	remoteOps  = 32       // RDMA READs, WRITEs and binds in flight
	spareSends = 16       // messages without data in flight
)

// withDefaults returns o with the defaults filled in.
func (o Options) withDefaults(dev *verbs.Device, negotiate time.Duration) (Options, error) {
	most := min(1024, dev.Query().MaxQPWR-remoteOps-spareSends)
	for _, f := range []struct {
		name          string
		v             *int
		def, min, max int
	}{
		{"SendCredits", &o.SendCredits, min(DefaultCredits, most), minCredits, most},
		{"RecvCredits", &o.RecvCredits, min(DefaultCredits, most), minCredits, most},
		{"MaxSendSize", &o.MaxSendSize, DefaultMessageSize, wire.MinReceiveSize, 1 << 20},
		{"MaxReceiveSize", &o.MaxReceiveSize, DefaultMessageSize, wire.MinReceiveSize, 1 << 20},
		{"MaxFragmentedSize", &o.MaxFragmentedSize, DefaultMaxFragmentedSize, wire.MinFragmentedSize, maxSize},
		{"MaxReadWriteSize", &o.MaxReadWriteSize, DefaultMaxReadWriteSize, 1, maxSize},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.min || *f.v > f.max {
			return o, fmt.Errorf("smbdirect: %s is %d, it has to be from %d to %d", f.name, *f.v, f.min, f.max)
		}
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{{"Negotiate", &o.Negotiate, negotiate}, {"Idle", &o.Idle, DefaultIdle},
		{"IdleResponse", &o.IdleResponse, DefaultIdleResponse}, {"Linger", &o.Linger, DefaultLinger}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < 0 {
			return o, fmt.Errorf("smbdirect: %s is %v, it has to be positive", d.name, *d.v)
		}
	}
	return o, nil
}
