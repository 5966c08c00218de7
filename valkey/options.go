// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of Options. Buffers and receives are as many as Valkey has. Memory that was never used
// takes none.
const (
	DefaultSendBuffer = 512 << 10
	DefaultRecvBuffer = 1 << 20
	DefaultSendQueue  = 128
	DefaultRecvQueue  = 1024
	DefaultInline     = 256
	DefaultLinger     = 5 * time.Second
	DefaultKeepAlive  = 3 * time.Second
	DefaultBacklog    = 128
	DefaultMaxConns   = 10000
)

// Options tune connections. Zero values stand for the defaults.
type Options struct {
	SendBuffer int // bytes in flight to the peer; default DefaultSendBuffer
	RecvBuffer int // bytes that the peer may send before they are read; default DefaultRecvBuffer
	SendQueue  int // messages in flight to the peer; default DefaultSendQueue
	RecvQueue  int // messages in flight from the peer; default DefaultRecvQueue

	// Inline is how many bytes Write sends directly from the caller's memory, bypassing the send
	// buffer. Default DefaultInline, or the device's maximum; negative: none.
	Inline int

	// Spin is how long a goroutine polls before it sleeps. Default verbs.DefaultSpin; negative: it
	// sleeps at once.
	Spin time.Duration

	// Linger limits how long Close waits for the peer to receive the written data. Default DefaultLinger.
	Linger time.Duration

	// KeepAlive is how often a connection is looked after when nobody waits for it, and how long it
	// may send nothing before it sends a keep-alive. Default DefaultKeepAlive, which is Valkey's.
	KeepAlive time.Duration
}

// Limits of Options.
const (
	minBuffer = 1 << 10
	maxBuffer = 1 << 30
	minQueue  = 16
)

// withDefaults returns o with the defaults of a device filled in.
func (o Options) withDefaults(dev *verbs.Device) (Options, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	attr := dev.Query()
	most := attr.MaxQPWR - spareSends
	def(&o.SendBuffer, DefaultSendBuffer)
	def(&o.RecvBuffer, DefaultRecvBuffer)
	def(&o.SendQueue, min(DefaultSendQueue, most))
	def(&o.RecvQueue, min(DefaultRecvQueue, attr.MaxQPWR))
	def(&o.Inline, min(DefaultInline, attr.MaxInline))
	o.Inline = max(o.Inline, 0)
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.Spin, verbs.DefaultSpin}, {&o.Linger, DefaultLinger}, {&o.KeepAlive, DefaultKeepAlive}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"SendBuffer", o.SendBuffer, minBuffer, maxBuffer},
		{"RecvBuffer", o.RecvBuffer, minBuffer, maxBuffer},
		{"SendQueue", o.SendQueue, minQueue, most},
		{"RecvQueue", o.RecvQueue, minQueue, attr.MaxQPWR},
		{"Inline", o.Inline, 0, attr.MaxInline},
		{"KeepAlive in ms", int(o.KeepAlive.Milliseconds()), 1, int(time.Hour.Milliseconds())},
	} {
		if f.v < f.min || f.v > f.max {
			return o, &verbs.OpError{Op: "valkey", Err: verbs.ErrInvalid,
				Detail: fmt.Sprintf("%s is %d, it has to be from %d to %d", f.name, f.v, f.min, f.max)}
		}
	}
	o.RecvBuffer &^= 1 // two halves
	return o, nil
}
