// SPDX-License-Identifier: Apache-2.0

// Package connect connects RC queue pairs of two processes by address and port, several of them at once. Programs that
// exchange numbers of queue pairs need it over iWARP, which has none on the wire: siw and NICs connect by package cm
// only.
package connect

import (
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// ByAddress reports whether the queue pairs of a device are to be connected by address and port.
func ByAddress(dev *verbs.Device) bool { return dev.Query().Transport == verbs.TransportIWARP }

// Create creates queue pair i of an id, by [cm.ID.CreateQP].
type Create func(i int, id *cm.ID) error

// Dial makes n connections to the listener of a peer that calls [Accept]. depth is how many READs and atomics are in
// flight each way. If one fails, the others are closed.
func Dial(ctx context.Context, dev *verbs.Device, to netip.AddrPort, n int, depth uint8,
	create Create) (conns []*cm.Conn, err error) {
	for i := range n {
		c, err := cm.Dial(ctx, dev, to.String(), cm.WithReads(depth, depth),
			cm.WithPrivateData(binary.BigEndian.AppendUint32(nil, uint32(i))),
			cm.WithSetup(func(id *cm.ID, _ *cm.ConnParam) error { return create(i, id) }))
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// Accept takes n connections of a peer that calls [Dial], in the peer's order.
func Accept(ctx context.Context, l *cm.Listener, n int, depth uint8, create Create) (conns []*cm.Conn, err error) {
	conns = make([]*cm.Conn, n)
	for left := n; left > 0; {
		r, err := l.Next(ctx)
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		i := n
		if private := r.Param().PrivateData; len(private) >= 4 { // over some protocols there are zeros behind it
			i = int(min(binary.BigEndian.Uint32(private), uint32(n)))
		}
		if i == n || conns[i] != nil { // of another peer
			r.Reject(nil)
			continue
		}
		conns[i], err = r.Accept(ctx, cm.WithReads(depth, depth),
			cm.WithSetup(func(id *cm.ID, _ *cm.ConnParam) error { return create(i, id) }))
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		left--
	}
	return conns, nil
}

func closeAll(conns []*cm.Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}
