// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Host is a device on the network.
type Host struct {
	Net    *Net
	Device *ibta.Device
	PD     *verbs.PD

	// Burst is how many packets are handled before anything is sent, as by a socket that
	// delivers several at once.
	Burst int
	// AckDelay is how long plain acknowledgements are held back.
	AckDelay ibta.Time

	num    int
	window int
	links  map[verbs.GID]*link
	flows  map[verbs.GID]*ibta.Flow
	qps    map[verbs.QPN]*QP
	batch  *ibta.Batch
	ready  []*QP
	packet ib.Packet
	burst  int // packets handled since something was sent
	due    bool
}

// QP is a queue pair of a host.
type QP struct {
	*ibta.QP
	Host *Host
	// OnWC and OnEvent are called for its completions and events; nil: not.
	OnWC    func(wc *verbs.WC, solicited bool)
	OnEvent func(verbs.EventType)

	timer   ibta.Time // when its next timer event is due; 0: none
	isDue   bool      // in the host's ready list
	holding bool      // an event that releases its acknowledgement is on its way
}

// pdNum is the protection domain that all objects of a host are in.
const pdNum memory.PD = 1

// NewHost adds a host; window is what its flows believe peers' socket buffers hold.
func (n *Net) NewHost(window int) *Host {
	h := &Host{Net: n, num: len(n.hosts), window: window, Burst: 1, links: make(map[verbs.GID]*link),
		flows: make(map[verbs.GID]*ibta.Flow), qps: make(map[verbs.QPN]*QP), batch: ibta.NewBatch(64, 65507)}
	h.Device = &ibta.Device{Memory: memory.NewTable(n.Rand.Uint32), PKeys: []verbs.PKey{ib.DefaultPKey}, Resolve: h.resolve,
		Persist: h.persist, MTU: 4096, MaxMsgSize: 1 << 31}
	h.PD = newPD(h)
	n.hosts = append(n.hosts, h)
	return h
}

// GID returns the host's address.
func (h *Host) GID() verbs.GID { return ib.GIDFromAddr(addrOf(h.num)) }

func (h *Host) addr() netip.AddrPort { return netip.AddrPortFrom(addrOf(h.num), 4791) }

// Flow returns what is under way to a host.
func (h *Host) Flow(to verbs.GID) *ibta.Flow {
	f := h.flows[to]
	if f == nil {
		f = ibta.NewFlow(h.window)
		h.flows[to] = f
	}
	return f
}

func (h *Host) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	l := h.links[attr.DGID]
	if l == nil {
		return nil, verbs.ErrInvalid
	}
	return &ibta.Vector{Attr: attr, Flow: h.Flow(attr.DGID), Route: l}, nil
}

// NewQP makes a queue pair; its device, domain, number and owner are filled in.
func (h *Host) NewQP(c ibta.Config) *QP {
	q := &QP{Host: h}
	c.Device, c.PD, c.Owner = h.Device, pdNum, q
	for c.Num <= 1 || h.qps[c.Num] != nil {
		c.Num = verbs.QPN(h.Net.Rand.Uint32N(1 << (24 - ibta.PrefixBits))) // of one process
	}
	if c.Recv == nil && c.Type <= verbs.UD {
		c.Recv = &ibta.RecvQueue{PD: pdNum, MaxWR: c.Caps.MaxRecvWR, MaxSGE: c.Caps.MaxRecvSGE}
	}
	q.QP = ibta.New(c)
	h.qps[c.Num] = q
	return q
}

// QPs returns the queue pairs of the host.
func (h *Host) QPs() []*QP { return slices.Collect(maps.Values(h.qps)) }

// Post posts send work requests and lets the queue pair send.
func (q *QP) Post(wrs ...verbs.SendWR) (int, error) {
	n, err := q.PostSend(wrs)
	q.Host.Kick(q)
	return n, err
}

// Kick lets q do what it can, after a command.
func (h *Host) Kick(q *QP) {
	h.add(q)
	h.pump()
}

func (h *Host) add(q *QP) {
	if !q.isDue {
		q.isDue = true
		h.ready = append(h.ready, q)
	}
}

// persistTime is how long a host takes to make memory persistent.
const persistTime = ibta.Time(50 * time.Microsecond)

func (h *Host) persist(f *ibta.Flush) {
	h.Net.After(persistTime, func() {
		if q := h.qps[f.QP().Num]; f.Done(true) && q != nil {
			h.add(q)
			h.pump()
		}
	})
}

// receive takes a packet from the network.
func (h *Host) receive(from *Host, transport []byte) {
	h.Device.Counters.RecvPackets++
	p := &h.packet
	if err := p.Decode(transport); err != nil && err != ib.ErrLength {
		h.Device.Counters.Dropped[ibta.DropMalformed]++
		return
	}
	q := h.qps[p.DestQP]
	if q == nil {
		h.Device.Counters.Dropped[ibta.DropNoDestination]++
		return
	}
	if path := q.Path(); path != nil && path.Attr.DGID != from.GID() {
		h.Device.Counters.Dropped[ibta.DropAddress]++
		return
	}
	if r := q.HandlePacket(h.Net.now, p, arrival{from, h}); r != ibta.Taken {
		h.Device.Counters.Dropped[r]++
	}
	clear(transport) // the memory is the caller's again: nobody may have kept it
	h.add(q)
	if h.burst++; h.burst >= h.Burst {
		h.pump()
		return
	}
	if !h.due {
		h.due = true
		h.Net.After(1000, func() { h.due = false; h.pump() })
	}
}

// pump drains what has had an input.
func (h *Host) pump() {
	h.burst = 0
	for _, peer := range h.Net.hosts {
		f := h.flows[peer.GID()]
		if f == nil {
			continue
		}
		for q := f.Next(); q != nil; q = f.Next() {
			h.add(q.Owner.(*QP))
		}
	}
	for len(h.ready) > 0 {
		q := h.ready[0]
		h.ready = h.ready[1:]
		q.isDue = false
		h.batch.Acks = h.AckDelay == 0
		h.drain(q)
	}
	h.deliver()
}

// drain sends what q has, and notes when its next timer is due.
func (h *Host) drain(q *QP) {
	for q.NextPackets(h.Net.now, h.batch) {
		h.transmit(h.batch)
	}
	if h.AckDelay > 0 && !q.holding && q.HasAck() {
		q.holding = true
		h.Net.After(h.AckDelay, func() {
			q.holding = false
			h.batch.Acks = true
			h.drain(q)
			h.pump()
		})
	}
	h.setTimer(q)
}

func (h *Host) setTimer(q *QP) {
	due := q.Deadline()
	if due == 0 || q.timer != 0 && q.timer <= due {
		return
	}
	q.timer = due
	h.Net.at(due, func() {
		if q.timer != due {
			return // an earlier one came instead
		}
		q.timer = 0
		if d := q.Deadline(); d != 0 && d <= h.Net.now {
			q.HandleTimeout(h.Net.now)
			h.add(q)
			h.pump()
		}
		h.setTimer(q)
	})
}

// transmit puts a batch on its link, packet by packet.
func (h *Host) transmit(b *ibta.Batch) {
	l := b.To.Route.(*link)
	for i := range b.Len() {
		out := b.Packet(i)
		pkt := append([]byte(nil), out.Head...)
		for _, piece := range out.Payload {
			pkt = append(pkt, piece...)
		}
		pkt = append(pkt, out.Tail...)
		if len(pkt) != b.PacketSize(i) {
			panic("sim: a packet is not as long as its batch says")
		}
		h.Net.send(l, pkt)
	}
}

// deliver hands out completions and events, which may lead to more.
func (h *Host) deliver() {
	o := &h.Device.Outbox
	for len(o.Completions)+len(o.Events) > 0 {
		wcs, evs := o.Completions, o.Events
		o.Completions, o.Events = nil, nil
		for i := range wcs {
			if q := h.qps[wcs[i].WC.QPN]; q.OnWC != nil {
				q.OnWC(&wcs[i].WC, wcs[i].Solicited)
			}
		}
		for _, e := range evs {
			if q, ok := e.Owner.(*QP); ok && q.OnEvent != nil {
				q.OnEvent(e.Type)
			}
		}
	}
}

// arrival is what a UD receive shows of the packet's IP header.
type arrival struct{ from, to *Host }

// AppendGRH appends an IPv4 header in the place that annex A17 gives it.
func (a arrival) AppendGRH(b []byte) []byte {
	var grh [40]byte
	grh[20] = 0x45
	src, dst := addrOf(a.from.num).As4(), addrOf(a.to.num).As4()
	copy(grh[32:], src[:])
	copy(grh[36:], dst[:])
	return append(b, grh[:]...)
}
