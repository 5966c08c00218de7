// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"fmt"
	"math/bits"
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/captured"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A datagram that the kernel sent.
type heard struct {
	name     string
	from, to verbs.AHAttr
	mad.Header
	bytes []byte
}

func (c *heard) body() []byte { return c.bytes[mad.HeaderLen:] }

func capturedDatagrams(t *testing.T, name string) (out []heard) {
	for _, f := range captured.RoCE(t, filepath.Join("..", "..", "..", "wire", "ib", "testdata", name)) {
		var p ib.Packet
		if err := p.Decode(f.Transport[:len(f.Transport)-ib.ICRCLen]); err != nil {
			t.Fatal(err)
		}
		if p.Opcode != ib.UDSendOnly || p.DestQP != ib.QP1 {
			continue
		}
		c := heard{bytes: p.Payload, from: addr(f.Src.Addr().String()), to: addr(f.Dst.Addr().String())}
		if !c.Decode(p.Payload) {
			t.Fatalf("frame %d", f.Num)
		}
		c.name = fmt.Sprintf("%s frame %d, %v", name, f.Num, c.Attribute)
		out = append(out, c)
	}
	return out
}

// A double stands in for one of the kernel's managers: it gets the same
// messages, its program makes the same calls, and it must send the same.
type double struct {
	t  *testing.T
	e  *Engine
	id mad.CommID
}

// newDouble returns a double whose next communication ID is id, and whose
// transaction IDs begin as the kernel's do.
func newDouble(t *testing.T, guid, tid uint64, id mad.CommID) *double {
	e := New(Config{CAGUID: guid})
	e.nextID, e.tidTop = func() uint32 { return uint32(id) }, func() uint32 { return uint32(tid >> 32) }
	return &double{t: t, e: e, id: id}
}

func (d *double) hears(c heard, kinds ...EventKind) (ev Event) {
	d.t.Helper()
	d.e.HandleMAD(1, c.from, c.bytes)
	for _, k := range kinds {
		if !d.e.NextEvent(&ev) || ev.Kind != k || ev.ID != d.id {
			d.t.Fatalf("%s: event %v of %x, want %v of %x", c.name, ev.Kind, ev.ID, k, d.id)
		}
	}
	return ev
}

// does checks the outcome of a command, and compares the datagram that it
// sends with the kernel's.
func (d *double) does(err error, c heard) {
	d.t.Helper()
	var o Datagram
	if err != nil || !d.e.NextMAD(&o) {
		d.t.Fatalf("%s: the double says nothing, error %v", c.name, err)
	}
	if o.To.DGID != c.to.DGID {
		d.t.Errorf("%s: goes to %v", c.name, o.To.DGID)
	}
	for i := range o.MAD {
		// The kernel puts its communication ID into the transaction ID with the bytes swapped.
		if swapped := i >= 12 && i < 16 && mad.CommID(c.TID) == mad.CommID(bits.ReverseBytes32(uint32(d.id))); swapped {
			continue
		}
		if o.MAD[i] != c.bytes[i] {
			d.t.Errorf("%s: byte %d is %#02x, the kernel's %#02x", c.name, i, o.MAD[i], c.bytes[i])
		}
	}
	// The kernel's peer will answer the kernel's transaction ID.
	k := d.e.byID[d.id]
	if k.repeat.tid = c.TID; !k.passive {
		k.tid = c.TID
	}
}

// TestKernelDoubles puts the engine in the place of each of the kernel's
// managers in turn. With the kernel's parameters it sends the kernel's messages,
// byte for byte but for the low half of transaction IDs.
func TestKernelDoubles(t *testing.T) {
	for _, name := range []string{"roce-mtu1024.pcap", "roce-mtu4096.pcap"} {
		var active, passive *double
		var asked heard
		compared := 0
		for _, c := range capturedDatagrams(t, name) {
			compared++
			switch c.Attribute {
			case mad.AttrREQ:
				var m mad.REQ
				m.Decode(c.body())
				asked, active = c, newDouble(t, m.LocalCAGUID, c.TID, m.LocalCommID)
				to := c.to
				to.FlowLabel = m.Primary.FlowLabel
				_, err := active.e.Connect(1,
					&ConnectParams{To: to, LocalGID: c.from.DGID, Service: m.ServiceID, QPN: m.LocalQPN, SRQ: m.SRQ,
						StartingPSN: m.StartingPSN, PathMTU: verbs.MTU(m.PathMTU),
						ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth,
						RetryCount: m.RetryCount, RNRRetryCount: m.RNRRetryCount, FlowControl: m.FlowControl,
						Response: 20, PrivateData: m.Private[:]})
				active.does(err, c)
			case mad.AttrREP:
				var m mad.REP
				m.Decode(c.body())
				passive = newDouble(t, m.LocalCAGUID, c.TID, m.LocalCommID)
				if err := passive.e.Listen(ListenParams{Mask: mad.IPServiceMask,
					Service: mad.IPService(mad.PortSpaceTCP, 0)}); err != nil {
					t.Fatal(err)
				}
				passive.hears(asked, EventRequest)
				passive.does(passive.e.Accept(1, m.LocalCommID,
					&AcceptParams{QPN: m.LocalQPN, SRQ: m.SRQ, StartingPSN: m.StartingPSN,
						ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth,
						RNRRetryCount: m.RNRRetryCount, FlowControl: m.FlowControl,
						PrivateData: m.Private[:]}), c)
				active.hears(c, EventReply)
			case mad.AttrRTU:
				active.does(active.e.Ready(1, active.id, nil), c)
				passive.hears(c, EventEstablished)
			case mad.AttrDREQ:
				if c.from != asked.from { // from here on, active is the side that disconnects
					active, passive = passive, active
				}
				active.does(active.e.Disconnect(1, active.id, nil), c)
				passive.hears(c, EventDisconnected)
			case mad.AttrDREP:
				passive.does(nil, c)
				active.hears(c, EventDisconnected)
			case mad.AttrSIDRREQ:
				var m mad.SIDRREQ
				m.Decode(c.body())
				asked, active = c, newDouble(t, 0, c.TID, m.RequestID)
				_, err := active.e.Resolve(1, &ResolveParams{To: c.to, Service: m.ServiceID, PrivateData: m.Private[:]})
				active.does(err, c)
			case mad.AttrSIDRREP:
				var m mad.SIDRREP
				m.Decode(c.body())
				passive = newDouble(t, 0, 0, 1)
				if err := passive.e.Listen(ListenParams{Service: m.ServiceID}); err != nil {
					t.Fatal(err)
				}
				passive.hears(asked, EventServiceRequest)
				passive.does(passive.e.Serve(1, 1, &ServiceParams{QPN: m.QPN, QKey: m.QKey, PrivateData: m.Private[:]}),
					c)
				active.hears(c, EventService)
			}
		}
		if compared != 17 {
			t.Errorf("%s: %d datagrams, want 17", name, compared)
		}
	}
}
