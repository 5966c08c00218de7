// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// lane sends and receives the packets of queue pairs that share a lock, that of core. It is the [softdev.Transport]
// of core.
type lane struct {
	dev    *Device
	port   Port
	core   *softdev.Lane
	engine ibta.Lane
	last   *qp // the one that the last packet was for
	flows  map[ibta.PathKey]*ibta.Flow

	schedule schedule
	progress progress
	counted  ibta.Counters // of the engine, as published to observers
	impaired *impairment   // nil: faults do nothing to packets
}

func (l *lane) init(d *Device, port Port) {
	l.dev, l.port, l.flows = d, port, make(map[ibta.PathKey]*ibta.Flow)
	l.engine.Resolve = l.resolve
	l.progress.init(l, d.engine.Limits)
}

// free drops what the lane has of queue pairs, and has the port free the rest: the device is closed, and every lane's
// lock held.
func (l *lane) free() {
	l.last = nil
	clear(l.flows)
	l.schedule = schedule{}
	if f, ok := l.port.(Freer); ok && !l.core.HasStray() {
		f.Free()
	}
}

func (l *lane) Publish() { l.counted = l.engine.Counters }

// isFirst reports whether the lane is the device's first. It alone has datagrams: UD queue pairs, management, multicast
// groups.
func (l *lane) isFirst() bool { return l == l.dev.lanes[0] }

// laneFor chooses the lane of a new queue pair. The device's lock is held.
func (d *Device) laneFor(t verbs.QPType) *lane {
	if t == verbs.UD {
		return d.lanes[0]
	}
	d.lastLane = (d.lastLane + 1) % len(d.lanes)
	return d.lanes[d.lastLane]
}

// resolve makes an address vector; the lane's lock is held.
func (l *lane) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	path, err := l.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	l.port.Connect(path)
	key := path.Key()
	return &ibta.Vector{Attr: attr, Flow: l.flow(key), Path: path, Key: key}, nil
}

// flow returns the flow to one host.
func (l *lane) flow(to ibta.PathKey) *ibta.Flow {
	f := l.flows[to]
	if f == nil {
		f = ibta.NewFlow(l.dev.engine.Limits.Window, l.dev.engine.HostControl())
		l.flows[to] = f
	}
	return f
}

// dropFlow drops the flow of an address vector that a queue pair left.
func (l *lane) dropFlow(v *ibta.Vector) {
	if v != nil && v.Flow.Unused() && l.flows[v.Key] == v.Flow {
		delete(l.flows, v.Key)
		l.port.Disconnect(v.Path)
	}
}
