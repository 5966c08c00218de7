// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of Options. Queues are as long as in librdmacm's rsockets. Buffers are seven times as
// large: with less, a software sender often waits for the peer to report that it has read some of
// the data. They hold 16 of the longest messages at a path MTU of 4096, so no message is cut short
// at their ends. Pages that were never used take no memory.
const (
	DefaultBuffer    = 16 * 61436
	DefaultQueue     = 384
	DefaultInline    = 256
	DefaultLinger    = 5 * time.Second
	DefaultKeepAlive = 15 * time.Second
	DefaultBacklog   = 128
)

// Busy as [Options.Spin] polls without ever sleeping: the lowest latency, at the cost of a
// processor.
const Busy time.Duration = math.MaxInt64

// Options tune connections. Zero values stand for the defaults.
type Options struct {
	SendBuffer int // bytes in flight to the peer; default DefaultBuffer
	RecvBuffer int // bytes that the peer may send before they are read; default DefaultBuffer
	SendQueue  int // messages in flight to the peer, at least 16; default DefaultQueue
	RecvQueue  int // messages in flight from the peer, at least 16; default DefaultQueue

	// Inline is how many bytes Write sends directly from the caller's memory, bypassing the send
	// buffer. Default DefaultInline, or the device's maximum; negative: none.
	Inline int

	// IOMaps is how many buffers the peer may map for [Conn.WriteAt]. Default none.
	IOMaps int

	// Spin is how long a goroutine polls before it sleeps. Default verbs.DefaultSpin;
	// negative: it sleeps at once; Busy: it never does.
	Spin time.Duration

	// LockedThread says that the goroutines that read and write are locked to their threads,
	// see verbs.CQOptions.
	LockedThread bool

	// Linger limits how long Close waits for the peer to receive all data. Default DefaultLinger.
	Linger time.Duration

	// KeepAlive is how long a peer may be silent while a Read or Write waits before it is probed.
	// A peer that does not answer breaks the connection with syscall.ETIMEDOUT. Default
	// DefaultKeepAlive; negative: never. There are no probes while no caller waits.
	KeepAlive time.Duration
}

// withDefaults returns o with the defaults of a device filled in.
func (o Options) withDefaults(dev *verbs.Device) (Options, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	attr := dev.Query()
	def(&o.SendBuffer, DefaultBuffer)
	def(&o.RecvBuffer, DefaultBuffer)
	def(&o.SendQueue, min(DefaultQueue, attr.MaxQPWR/2))
	def(&o.RecvQueue, min(DefaultQueue, attr.MaxQPWR-spareReceives))
	def(&o.Inline, min(DefaultInline, attr.MaxInline))
	o.Inline = max(o.Inline, 0)
	if o.Spin == 0 {
		o.Spin = verbs.DefaultSpin
	}
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"SendBuffer", o.SendBuffer, 1 << 10, 1 << 30},
		{"RecvBuffer", o.RecvBuffer, 1 << 10, 1 << 30},
		{"SendQueue", o.SendQueue, 16, attr.MaxQPWR / 2}, // a message may be two work requests
		{"RecvQueue", o.RecvQueue, 16, min(rsocket.MaxCredits, attr.MaxQPWR-spareReceives)},
		{"Inline", o.Inline, 0, attr.MaxInline},
		{"IOMaps", o.IOMaps, 0, 127 << 8},
	} {
		if f.v < f.min || f.v > f.max {
			return o, &verbs.OpError{Op: "rnet", Err: verbs.ErrInvalid,
				Detail: fmt.Sprintf("%s is %d, it has to be from %d to %d", f.name, f.v, f.min, f.max)}
		}
	}
	o.RecvBuffer &^= 1
	o.IOMaps = rsocket.UnscaleIOMaps(rsocket.ScaleIOMaps(o.IOMaps))
	return o, nil
}
