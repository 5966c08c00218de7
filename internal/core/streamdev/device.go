// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device is a verbs device whose queue pairs have a stream each: iWARP, and shared memory.
type Device struct {
	softdev.Device
	net        Network
	carrier    Carrier
	links      linkCounters
	counted    linkCounters // as published to observers
	conns      map[*Conn]struct{}
	rendezvous rendezvous
	callbacks  callbackQueue

	ready       queue.Ring[*Conn]        // may have something to send
	established []*Conn                  // connections that have a queue pair
	refused     *softdev.HalfOpen[*Conn] // rejected links whose peers have not ended them
	lastShared  int                      // index of the one that took the last receive of a shared queue
	sends       softdev.Budget
	load        int  // bytes moved that are not yet counted in movedMuch
	woken       bool // a wait has ended, and no pass has asked the network by what
	handle      func(owner any, read, write bool)
	impaired    *softdev.Faulty // nil: faults do nothing to streams
}

const (
	// burst is how many posts since the last poll wait for the next one, so that their messages
	// leave in one write.
	burst = 64
	// heavyLoad is how many bytes between two polls make polls rare: about 50 µs of copying.
	heavyLoad = 256 << 10
	// bulkCompletions at once come from a full queue, whose messages need not leave at once.
	bulkCompletions = 8
	// streamBudgetBytes is how much a device sends in a pass: streams take more in one call than ports for packets.
	streamBudgetBytes = 2 << 20
	// streamReads is how many reads the streams of a device share in a pass. Each gets at least
	// one, and at most streamCalls, which also limits the writes of a stream.
	streamReads = 32
	streamCalls = 8
)

// New creates a device of a network for bytes, and starts its goroutines. name is the name by which the program opened
// it.
func New(name, kind string, guid uint64, net Network) (*Device, error) {
	return NewWith(net, softdev.AttrOf(name, kind, verbs.TransportIWARP, guid),
		func(d *Device) Carrier { return newByteCarrier(d) })
}

func (d *Device) start(attr verbs.DeviceAttr) error {
	d.conns, d.refused = make(map[*Conn]struct{}), softdev.NewHalfOpen[*Conn](maxRefused)
	d.Device.Init(d, d.net, d.carrier.Shared(), []softdev.Engine{{Transport: d, Outbox: d.carrier.Outbox()}}, attr)
	if s, ok := d.carrier.(memory.Sharer); ok {
		d.carrier.Shared().Memory.ShareWith(s)
	}
	d.handle = func(o any, read, write bool) { o.(Owner).Handle(read, write) }
	if err := d.rendezvous.open(d); err != nil {
		return err
	}
	d.callbacks.start()
	d.Start()
	return nil
}

// linkCounters count links of peers that the device did not take, or dropped.
type linkCounters struct {
	noRoom  uint64 // times that the system had no room for one
	dropped uint64 // silent ones that were dropped for others
}

func (d *Device) Publish() {
	d.counted = d.links
	d.carrier.Publish()
}

func (d *Device) Counted() []metric.Metric {
	return append(d.carrier.Metrics(),
		metric.Metric{Name: "accept_no_room", Unit: metric.UnitEvents,
			Help: "times that there was no room for a peer's link", Value: d.counted.noRoom},
		metric.Metric{Name: "accept_dropped", Unit: metric.UnitEvents,
			Help: "links that said nothing and went for others", Value: d.counted.dropped})
}

// findQP returns the queue pair of a number, or nil.
func (d *Device) findQP(n verbs.QPN) *QP {
	q, _ := d.QPs[n].(*QP)
	return q
}

func (d *Device) isClosed() bool {
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	return d.Closed.Load()
}

// NewAH fails where there are no datagrams.
func (d *Device) NewAH(attr verbs.AHAttr) (driver.AH, error) {
	if u := d.carrier.Datagrams(); u != nil {
		return u.NewAH(attr)
	}
	return nil, &verbs.OpError{Op: "create_ah", Err: verbs.ErrNotSupported,
		Detail: "the device has no datagrams: use RC queue pairs"}
}

// Adopt makes the streams of a shared receive queue continue when it has receives again.
func (d *Device) Adopt(s *softdev.SRQ, _ *verbs.SRQInit) { s.Posted = d.resumeAll }

// SendRest sends the bytes that TCP takes now.
func (d *Device) SendRest() {
	d.Lane.NewTime()
	d.transmit()
}

func (d *Device) Shut() error {
	d.Lane.Mu.Lock()
	for _, c := range d.inOrder() {
		c.link.Close(c.inUse())
	}
	d.rendezvous.close()
	d.Lane.Mu.Unlock()
	d.callbacks.stop()
	d.net.StopFollowing()
	return d.WaitForWorkers("close_device", "the memory of the regions is the program's alone")
}

func (d *Device) Free() error {
	clear(d.conns)
	d.established, d.ready = nil, queue.Ring[*Conn]{}
	d.carrier.Close()
	return d.net.Close()
}

// inOrder returns all connections, in a reproducible order.
func (d *Device) inOrder() []*Conn {
	return slices.SortedFunc(maps.Keys(d.conns), func(a, b *Conn) int {
		return cmp.Or(a.link.LocalAddr().Compare(b.link.LocalAddr()), a.link.PeerAddr().Compare(b.link.PeerAddr()))
	})
}

// Moved counts bytes that were read or written.
func (d *Device) Moved(n int) {
	if d.load += n; d.load >= heavyLoad {
		d.load = 0
		d.Lane.MovedMuch()
	}
}

// Receive delivers the data that has arrived to its queue pairs.
func (d *Device) Receive() (n int) {
	if d.carrier.Scans() {
		for i := 0; i < len(d.established); i++ {
			n += d.established[i].qp.Endpoint.Receive()
		}
		if n > 0 || !d.woken {
			return n
		}
	}
	d.woken = false
	return d.net.Ready(d.handle)
}

// Respond sends the data that is ready.
func (d *Device) Respond(bool, int, bool) { d.transmit() }

// Owner is the object that links and acceptors belong to.
type Owner interface {
	// Handle is called when they can be read, or written. The lock is held.
	Handle(read, write bool)
}

func (d *Device) Polling(*queue.CQ) {}

func (d *Device) Long(received int) bool { return received > 1 }

// transmit sends the data that is ready, a few writes of each stream, one after the other, and as much as a pass
// allows, and delivers the results to the program.
func (d *Device) transmit() {
	if d.ready.Len() > 0 { // else nobody needs the time, and most polls of a program are so
		d.sends = softdev.Budget{Start: d.Lane.PassTime()}
	}
	for n := d.ready.Len(); n > 0 && !d.sends.Over; n-- {
		c := *d.ready.Front()
		*d.ready.Front() = nil
		d.ready.PopFront()
		c.ready = false
		c.transmit()
	}
	d.Lane.Deliver()
	if d.ready.Len() > 0 {
		d.Lane.WakeBy(d.Lane.PassTime() + clock.Time(softdev.GracePeriod)) // the program may never poll again
	}
	d.Lane.WakeForTimer()
}

// Flush leaves the other ready streams to the goroutine.
func (d *Device) Flush() {
	d.transmit()
	if d.ready.Len() > 0 {
		d.Lane.WakeBy(d.Lane.PassTime())
	}
}

func (d *Device) Pending() bool                      { return d.ready.Len() > 0 }
func (d *Device) Stalled() bool                      { return false }
func (d *Device) Workers() map[softdev.Worker]uint32 { return d.carrier.Workers() }
func (d *Device) Arm() bool                          { return d.carrier.Arm() }
func (d *Device) SetDeadline(t time.Time)            { d.net.SetDeadline(t) }

func (d *Device) Wait(bool) error { return d.net.Wait() }
func (d *Device) Waited()         { d.woken = true }
func (d *Device) Wake()           { d.net.Wake() }
