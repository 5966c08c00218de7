// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// client asks an administrator from an adapter, as a program there would.
type client struct {
	s    *subnet
	b    *testNode
	tid  uint64
	key  uint64
	acks func(a *sa.RMPP) // may change an acknowledgement before it is sent
}

const clientQP = 1

func (c *client) lid() uint16 { return c.b.node.Ports[1].Address.LID }

func (c *client) gid() ib.GID { return makeGID(0xfe80<<48, c.b.node.Ports[1].GUID) }

func (c *client) transmit(h *sa.Header, data []byte) {
	d := Datagram{QPN: ib.QP1, LID: c.b.node.Ports[1].Address.SMLID, Peer: clientQP, PKey: ib.DefaultPKey}
	h.Append(d.MAD[:0])
	copy(d.MAD[sa.HeaderLen:], data)
	c.s.byLID(c.b, 1, &d, false)
}

// ask sends a query and returns the status and the records of the answer, padding included.
func (c *client) ask(method mad.Method, a mad.Attribute, mask uint64,
	query interface{ Append([]byte) []byte }) (mad.Status, [][]byte) {
	c.s.t.Helper()
	c.tid++
	h := sa.NewHeader(method, a, c.tid, mask)
	h.SMKey = c.key
	var data []byte
	if query != nil {
		data = query.Append(nil)
	}
	c.s.inbox[c.b] = nil
	c.transmit(&h, data)
	var all []byte
	var last *sa.Header
	next := uint32(1)
	ok := c.s.run(30*time.Second, func() bool {
		arrived := c.s.inbox[c.b]
		c.s.inbox[c.b] = nil
		for i := range arrived {
			var r sa.Header
			r.Decode(arrived[i].MAD[:])
			if r.TID != c.tid {
				c.s.inbox[c.b] = append(c.s.inbox[c.b], arrived[i])
				continue
			}
			if r.RMPP.Flags&sa.RMPPActive == 0 {
				last, all = &r, arrived[i].MAD[sa.HeaderLen:]
				return true
			}
			if r.RMPP.Type != sa.RMPPData {
				last = &r
				last.Status = mad.Status(0xff00) | mad.Status(r.RMPP.Status)
				return true
			}
			if r.RMPP.Segment == next {
				next++
				n := sa.DataLen
				if r.RMPP.Flags&sa.RMPPLast != 0 {
					n, last = int(r.RMPP.Length)-sa.SubHeaderLen, &r
				}
				all = append(all, arrived[i].MAD[sa.HeaderLen:sa.HeaderLen+n]...)
			}
			ack := r
			ack.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPAck, Flags: sa.RMPPActive, RespTime: 31,
				Segment: next - 1, Length: next + 6}
			if c.acks != nil {
				c.acks(&ack.RMPP)
			}
			c.transmit(&ack, nil)
		}
		return last != nil
	})
	if !ok {
		c.s.t.Fatalf("no answer to %v of %s", method, sa.Name(a))
	}
	if last.Status != mad.StatusOK {
		return last.Status, nil
	}
	if method != sa.MethodGetTable {
		return 0, [][]byte{all}
	}
	stride := int(last.Offset) * 8
	if stride == 0 || len(all)%stride != 0 {
		c.s.t.Fatalf("%d bytes of records of %d bytes", len(all), stride)
	}
	return 0, slices.Collect(slices.Chunk(all, stride))
}

// want fails the test unless a status is as wanted.
func (c *client) want(want, got mad.Status) {
	c.s.t.Helper()
	if got != want {
		c.s.t.Errorf("status %q, want %q", sa.StatusText(got), sa.StatusText(want))
	}
}

// newClients returns a subnet that is up, its manager, and clients at all other adapters.
func newClients(t testing.TB, c Config) (*subnet, *testManager, []*client) {
	s := newSubnet(t)
	all, _, _, _ := s.fatTree(4)
	mgr := s.manage(all[0], c)
	s.up(mgr)
	var clients []*client
	for _, b := range all[1:] {
		clients = append(clients, &client{s: s, b: b, tid: uint64(b.node.GUID) << 16})
	}
	return s, mgr, clients
}

func TestPathRecords(t *testing.T) {
	s, mgr, clients := newClients(t, Config{Partitions: []Partition{{PKey: 0x7fff, All: FullMember}, {PKey: 0x12}}})
	_ = mgr
	a, b := clients[2], clients[9]
	for _, m := range []uint64{
		sa.PathDGID | sa.PathSGID, sa.PathDLID | sa.PathSLID, sa.PathDGID | sa.PathSLID, sa.PathDLID | sa.PathSGID,
		sa.PathDGID | sa.PathSGID | sa.PathDLID | sa.PathSLID | sa.PathNumbPath | sa.PathReversible | sa.PathPKey |
			sa.PathTClass | sa.PathSL,
		sa.PathDGID | sa.PathSGID | sa.PathServiceIDHigh | sa.PathServiceIDLow,
		sa.PathDGID | sa.PathSGID | sa.PathMTU | sa.PathMTUSelector | sa.PathRate | sa.PathRateSelector,
	} {
		q := sa.PathRecord{DGID: b.gid(), SGID: a.gid(), DLID: b.lid(), SLID: a.lid(), NumbPath: 1, Reversible: true,
			PKey: 0xffff, TClass: 5, SL: 3, ServiceID: 77, MTU: sa.Selected{Selector: sa.GreaterThan, Value: 2},
			Rate: sa.Selected{Selector: sa.Exactly, Value: 16}}
		for _, method := range []mad.Method{mad.MethodGet, sa.MethodGetTable} {
			status, records := a.ask(method, sa.AttrPathRecord, m, &q)
			a.want(0, status)
			if len(records) != 1 {
				t.Fatalf("mask %#x: %d records", m, len(records))
			}
			var r sa.PathRecord
			r.Decode(records[0])
			want := sa.PathRecord{DGID: b.gid(), SGID: a.gid(), DLID: b.lid(), SLID: a.lid(), PKey: 0xffff,
				Reversible: true, NumbPath: 1, MTU: exact(5), Rate: exact(16), Life: exact(18)}
			if m&sa.PathSL != 0 {
				want.SL, want.TClass = 3, 5
			}
			if m&sa.PathServiceIDLow != 0 {
				want.ServiceID = 77
			}
			if r != want {
				t.Errorf("mask %#x: %+v\nwant %+v", m, r, want)
			}
		}
	}
	// Queries without a matching record.
	for _, c := range []struct {
		mask   uint64
		q      sa.PathRecord
		status mad.Status
	}{
		{sa.PathDGID | sa.PathSGID, sa.PathRecord{DGID: ib.GID{1}, SGID: a.gid()}, sa.StatusInvalidGID},
		{sa.PathDGID | sa.PathSGID | sa.PathMTU | sa.PathMTUSelector,
			sa.PathRecord{DGID: b.gid(), SGID: a.gid(), MTU: sa.Selected{Selector: sa.GreaterThan, Value: 5}},
			sa.StatusNoRecords},
		{sa.PathDGID | sa.PathSGID | sa.PathRate | sa.PathRateSelector,
			sa.PathRecord{DGID: b.gid(), SGID: a.gid(), Rate: sa.Selected{Selector: sa.LessThan, Value: 16}},
			sa.StatusNoRecords},
		{sa.PathDGID | sa.PathSGID | sa.PathPKey, sa.PathRecord{DGID: b.gid(), SGID: a.gid(), PKey: 0x8012},
			sa.StatusNoRecords},
		{sa.PathSLID, sa.PathRecord{SLID: a.lid()}, sa.StatusTooManyRecords},
		{sa.PathSLID, sa.PathRecord{SLID: 0xbfff}, sa.StatusNoRecords},
		{sa.PathLife << 1, sa.PathRecord{}, sa.StatusInvalid},
	} {
		status, _ := a.ask(mad.MethodGet, sa.AttrPathRecord, c.mask, &c.q)
		if status != c.status {
			t.Errorf("mask %#x: %q, want %q", c.mask, sa.StatusText(status), sa.StatusText(c.status))
		}
	}
	// All from one port, over RMPP: to 16 adapters and 20 switches.
	status, records := a.ask(sa.MethodGetTable, sa.AttrPathRecord, sa.PathSLID, &sa.PathRecord{SLID: a.lid()})
	a.want(0, status)
	seen := map[uint16]bool{}
	for _, b := range records {
		var r sa.PathRecord
		r.Decode(b)
		seen[r.DLID] = true
	}
	if len(records) != 36 || len(seen) != 36 {
		t.Errorf("%d paths to %d ports, want 36", len(records), len(seen))
	}
	// To the broadcast group.
	status, records = a.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathDGID|sa.PathSGID,
		&sa.PathRecord{DGID: broadcastGID(0x7fff), SGID: a.gid()})
	a.want(0, status)
	var r sa.PathRecord
	if r.Decode(records[0]); r.DLID != 0xc000 || r.MTU != exact(4) {
		t.Errorf("path to the broadcast group: %+v", r)
	}
	_ = s
}

// A path has the MTU and the rate of its narrowest link.
func TestPathLimits(t *testing.T) {
	s := newSubnet(t)
	a, x, y, b := s.addAdapter(), s.addSwitch(4), s.addSwitch(4), s.addAdapter()
	y.node.Ports[1].MTU.Cap, y.node.Ports[1].MTU.Neighbor = 3, 3
	y.node.Ports[2].Link.SpeedEnabled = node.SDR
	y.node.Ports[2].Link.WidthEnabled = node.Width1x
	s.cable(a, x)
	s.cable(x, y)
	s.cable(y, b)
	mgr := s.manage(a, Config{})
	s.up(mgr)
	s.check(mgr)
	c := &client{s: s, b: b}
	status, records := c.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathSLID|sa.PathDLID,
		&sa.PathRecord{SLID: c.lid(), DLID: mgr.m.LID()})
	c.want(0, status)
	var r sa.PathRecord
	if r.Decode(records[0]); r.MTU.Value != 3 || r.Rate.Value != 2 {
		t.Errorf("MTU %d and rate %d, want 3 and 2", r.MTU.Value, r.Rate.Value)
	}
}

func TestNodeRecords(t *testing.T) {
	s, mgr, clients := newClients(t, Config{})
	c := clients[4]
	count := func(a mad.Attribute, mask uint64, q interface{ Append([]byte) []byte }) [][]byte {
		status, records := c.ask(sa.MethodGetTable, a, mask, q)
		c.want(0, status)
		return records
	}
	nodes := count(sa.AttrNodeRecord, 0, nil)
	guids := map[uint64]bool{}
	for _, b := range nodes {
		var r sa.NodeRecord
		r.Decode(b)
		guids[r.Info.NodeGUID] = true
		if p := mgr.m.fabric.at(r.LID); p == nil || p.guid != r.Info.PortGUID {
			t.Errorf("LID %d: %+v", r.LID, r)
		}
	}
	if len(guids) != len(s.nodes) {
		t.Errorf("%d nodes, want %d", len(guids), len(s.nodes))
	}
	one := sa.NodeRecord{Info: smp.NodeInfo{NodeType: 2, NodeGUID: s.nodes[1].node.GUID}}
	for mask, want := range map[uint64]int{1 << 4: 20, 1 << 7: 1, 1<<4 | 1<<7: 1} {
		if n := len(count(sa.AttrNodeRecord, mask, &one)); n != want {
			t.Errorf("mask %#x: %d nodes, want %d", mask, n, want)
		}
	}
	// 16 adapters with a port, 20 switches with 5.
	if n := len(count(sa.AttrPortInfoRecord, 0, nil)); n != 116 {
		t.Errorf("%d ports, want 116", n)
	}
	byLID := sa.PortInfoRecord{LID: c.lid()}
	if ports := count(sa.AttrPortInfoRecord, 1, &byLID); len(ports) != 1 {
		t.Errorf("%d ports with the LID %d", len(ports), c.lid())
	} else if byLID.Decode(ports[0]); byLID.Info.LID != c.lid() || byLID.Info.Link.State != uint8(node.Active) {
		t.Errorf("%+v", byLID)
	}
	links := count(sa.AttrLinkRecord, 0, nil)
	if len(links) != 2*(16+16+16) {
		t.Errorf("%d links, want 96: 48 cables from both ends", len(links))
	}
	mirror := map[sa.LinkRecord]bool{}
	for _, b := range links {
		var r sa.LinkRecord
		r.Decode(b)
		mirror[r] = true
	}
	for r := range mirror {
		if !mirror[sa.LinkRecord{FromLID: r.ToLID, FromPort: r.ToPort, ToPort: r.FromPort, ToLID: r.FromLID}] {
			t.Errorf("%+v has no other end", r)
		}
	}
	for _, x := range []struct {
		a    mad.Attribute
		want int
	}{
		{sa.AttrSwitchInfoRecord, 20}, {sa.AttrLinearRecord, 20}, {sa.AttrSMInfoRecord, 1}, {sa.AttrGUIDInfoRecord, 36},
		{sa.AttrPKeyRecord, 36}, {sa.AttrSLtoVLRecord, 16 + 20*4*4}, {sa.AttrVLArbRecord, 2 * (16 + 20*4)},
		{sa.AttrMulticastRecord, 20},
	} {
		if n := len(count(x.a, 0, nil)); n != x.want {
			t.Errorf("%s: %d records, want %d", sa.Name(x.a), n, x.want)
		}
	}
	// The records of forwarding tables have the switches' entries.
	for _, b := range count(sa.AttrLinearRecord, 0, nil) {
		var r sa.LinearRecord
		r.Decode(b)
		for _, n := range s.nodes {
			if n.node.Type == node.Switch && n.node.Ports[0].Address.LID == r.LID &&
				!slices.Equal(n.node.Tables.Linear[64*int(r.Block):][:64], r.Table[:]) {
				t.Errorf("switch %d block %d", r.LID, r.Block)
			}
		}
	}
	status, records := c.ask(mad.MethodGet, mad.AttrClassPortInfo, 0, nil)
	c.want(0, status)
	var info mad.ClassPortInfo
	if info.Decode(records[0]); info.ClassVersion != 2 || info.CapMask != capOptional|capMulticast {
		t.Errorf("%+v", info)
	}
	status, _ = c.ask(mad.MethodGet, 0x39, 0, nil)
	c.want(mad.StatusUnsupportedAttribute, status)
	status, _ = c.ask(mad.MethodSet, sa.AttrNodeRecord, 0, nil)
	c.want(mad.StatusUnsupportedMethod, status)
	c.key = 99
	status, _ = c.ask(mad.MethodGet, sa.AttrNodeRecord, 0, nil)
	c.want(sa.StatusDenied, status)
}

// Tables come whole however segments and acknowledgements get lost, and receivers that misbehave end
// their transfer and nothing else.
func TestRMPP(t *testing.T) {
	for seed := range uint64(8) {
		s, mgr, clients := newClients(t, Config{SweepInterval: time.Hour})
		s.rng = rand.New(rand.NewPCG(seed, 1))
		c := clients[seed]
		lose := rand.New(rand.NewPCG(seed, 2))
		s.tamper = func(_ *testManager, d *Datagram) bool {
			var h sa.Header
			h.Decode(d.MAD[:])
			return d.QPN != ib.QP1 || h.RMPP.Segment == 1 || lose.IntN(5) != 0
		}
		status, records := c.ask(sa.MethodGetTable, sa.AttrPortInfoRecord, 0, nil)
		c.want(0, status)
		if len(records) != 116 {
			t.Errorf("seed %d: %d records", seed, len(records))
		}
		s.tamper = nil
		for i, spoil := range []func(a *sa.RMPP){
			func(a *sa.RMPP) { a.Version = 2 },
			func(a *sa.RMPP) { a.Segment = 1000 },
			func(a *sa.RMPP) { a.Length = 0 },
		} {
			c.acks = spoil
			status, _ = c.ask(sa.MethodGetTable, sa.AttrPortInfoRecord, 0, nil)
			want := []uint8{sa.RMPPBadVersion, sa.RMPPSegmentTooBig, sa.RMPPWindowTooSmall}[i]
			if status != mad.Status(0xff00)|mad.Status(want) {
				t.Errorf("%d: status %#x, want an abort with %d", i, uint16(status), want)
			}
		}
		c.acks = func(a *sa.RMPP) { a.Type = sa.RMPPAbort }
		c.tid++
		h := sa.NewHeader(sa.MethodGetTable, sa.AttrPortInfoRecord, c.tid, 0)
		c.transmit(&h, nil)
		h.RMPP = sa.RMPP{Version: 1, Type: sa.RMPPStop, Flags: sa.RMPPActive, Status: sa.RMPPExhausted}
		c.transmit(&h, nil)
		if n := len(mgr.m.admin.transfers); n != 0 {
			t.Errorf("%d transfers after a STOP", n)
		}
		// A transfer whose client does not answer at all is given up.
		c.tid++
		h = sa.NewHeader(sa.MethodGetTable, sa.AttrPortInfoRecord, c.tid, 0)
		c.transmit(&h, nil)
		s.run(20*time.Second, nil)
		if n := len(mgr.m.admin.transfers); n != 0 || mgr.m.admin.bytes != 0 {
			t.Errorf("%d transfers and %d bytes are left", n, mgr.m.admin.bytes)
		}
	}
}

// A requester has eight tables at most under way.
func TestTransfersBounded(t *testing.T) {
	_, mgr, clients := newClients(t, Config{})
	c := clients[0]
	for range 50 {
		c.tid++
		h := sa.NewHeader(sa.MethodGetTable, sa.AttrPortInfoRecord, c.tid, 0)
		c.transmit(&h, nil)
		c.transmit(&h, nil) // repeated: the same one
	}
	if n := len(mgr.m.admin.transfers); n != perRequester {
		t.Errorf("%d transfers", n)
	}
	mgr.m.config.Limits.ResponseBytes = 1000
	status, _ := clients[1].ask(sa.MethodGetTable, sa.AttrPortInfoRecord, 0, nil)
	clients[1].want(sa.StatusNoResources, status)
	mgr.m.config.Limits.PathPairs = 10
	status, _ = clients[1].ask(sa.MethodGetTable, sa.AttrPathRecord, sa.PathMTUSelector|sa.PathMTU,
		&sa.PathRecord{MTU: sa.Selected{Selector: sa.LessThan, Value: 1}})
	clients[1].want(sa.StatusNoResources, status)
}

func TestServices(t *testing.T) {
	s, _, clients := newClients(t, Config{Limits: Limits{Services: 6, PerPort: 4}})
	c, other := clients[0], clients[1]
	record := func(id uint64, lease uint32) *sa.ServiceRecord {
		return &sa.ServiceRecord{ID: id, GID: c.gid(), PKey: 0xffff, Lease: lease, Key: [16]byte{1},
			Name: [64]byte{'x'}}
	}
	const all = sa.ServiceID | sa.ServiceGID | sa.ServicePKey | sa.ServiceLease | sa.ServiceKey | sa.ServiceName
	set := func(c *client, r *sa.ServiceRecord) mad.Status {
		status, _ := c.ask(mad.MethodSet, sa.AttrServiceRecord, all, r)
		return status
	}
	find := func(id uint64) (mad.Status, sa.ServiceRecord) {
		status, records := other.ask(mad.MethodGet, sa.AttrServiceRecord, sa.ServiceID, &sa.ServiceRecord{ID: id})
		var r sa.ServiceRecord
		if status == 0 {
			r.Decode(records[0])
		}
		return status, r
	}
	c.want(0, set(c, record(1, 10)))
	c.want(0, set(c, record(2, sa.LeaseForever)))
	c.want(sa.StatusDenied, set(other, record(3, 10))) // for another port
	bad := record(1, 10)
	bad.Key[0] = 2
	c.want(sa.StatusDenied, set(c, bad))
	status, r := find(1)
	c.want(0, status)
	if r.Lease == 0 || r.Lease > 10 || r.Key != ([16]byte{}) || r.Name[0] != 'x' {
		t.Errorf("%+v", r)
	}
	s.run(6*time.Second, nil)
	c.want(0, set(c, record(1, 10))) // renewed
	s.run(6*time.Second, nil)
	status, _ = find(1)
	c.want(0, status)
	s.run(6*time.Second, nil)
	status, _ = find(1)
	c.want(sa.StatusNoRecords, status)
	status, _ = find(2)
	c.want(0, status)
	status, _ = other.ask(sa.MethodDelete, sa.AttrServiceRecord, all, record(2, 0))
	c.want(sa.StatusDenied, status)
	status, _ = c.ask(sa.MethodDelete, sa.AttrServiceRecord, all, record(2, 0))
	c.want(0, status)
	status, _ = find(2)
	c.want(sa.StatusNoRecords, status)
	for i := range uint64(5) {
		want := mad.StatusOK
		if i == 4 {
			want = sa.StatusNoResources
		}
		c.want(want, set(c, record(10+i, sa.LeaseForever)))
	}
	// The services of a port that goes end.
	s.unplug(testPort{c.b, 1})
	s.run(3*time.Second, nil)
	status, records := other.ask(sa.MethodGetTable, sa.AttrServiceRecord, 0, nil)
	c.want(0, status)
	if len(records) != 0 {
		t.Errorf("%d services", len(records))
	}
}

// notices takes the reports that came to a client, and answers them.
func (c *client) notices(answer bool) (all []string) {
	for i := range c.s.inbox[c.b] {
		d := &c.s.inbox[c.b][i]
		var h sa.Header
		if h.Decode(d.MAD[:]); h.Method != mad.MethodReport {
			continue
		}
		var n mad.Notice
		n.Decode(d.MAD[sa.HeaderLen:])
		var details mad.GIDDetails
		details.Decode(&n.Details)
		all = append(all, fmt.Sprintf("%d of %x", n.Trap, binary.BigEndian.Uint64(details.GID[8:])))
		if answer {
			h.Method = mad.MethodReportResp
			c.transmit(&h, d.MAD[sa.HeaderLen:])
		}
	}
	c.s.inbox[c.b] = nil
	return all
}

func TestReports(t *testing.T) {
	s, mgr, clients := newClients(t, Config{Limits: Limits{PerPort: 2}})
	a, b, gone := clients[0], clients[7], clients[3]
	info := func(trap uint16, subscribe uint8) *sa.InformInfo {
		return &sa.InformInfo{LIDBegin: anyLID, Generic: 1, Subscribe: subscribe, Type: anyType, Trap: trap,
			Producer: anyProducer, RespTime: 18}
	}
	subscribe := func(c *client, i *sa.InformInfo) mad.Status {
		status, _ := c.ask(mad.MethodSet, mad.AttrInformInfo, 0, i)
		return status
	}
	a.want(0, subscribe(a, info(anyTrap, 1)))
	a.want(0, subscribe(a, info(anyTrap, 1))) // the same one
	b.want(0, subscribe(b, info(uint16(mad.TrapOutOfService), 1)))
	b.want(0, subscribe(b, info(uint16(mad.TrapGroupCreated), 1)))
	b.want(sa.StatusNoResources, subscribe(b, info(uint16(mad.TrapInService), 1)))
	b.want(sa.StatusInvalid, subscribe(b, info(uint16(mad.TrapInService), 0)))
	_, records := a.ask(sa.MethodGetTable, sa.AttrInformInfoRecord, 0, nil)
	if len(records) != 3 {
		t.Errorf("%d subscriptions, want 3", len(records))
	}
	// A port goes, and comes back.
	peer := gone.b.peers[1]
	lost := fmt.Sprintf("65 of %x", gone.b.node.Ports[1].GUID)
	back := fmt.Sprintf("64 of %x", gone.b.node.Ports[1].GUID)
	s.unplug(testPort{gone.b, 1})
	s.run(500*time.Millisecond, nil)
	if got := b.notices(true); !slices.Equal(got, []string{lost}) {
		t.Errorf("b is told %v", got)
	}
	got := a.notices(false)
	if !slices.Contains(got, lost) || len(got) < 2 { // and of the trap of the switch
		t.Errorf("a is told %v", got)
	}
	s.run(1500*time.Millisecond, nil) // not answered: again
	if got := a.notices(true); !slices.Contains(got, lost) {
		t.Errorf("a is told again %v", got)
	}
	if n := len(b.notices(true)); n != 0 {
		t.Errorf("b has answered and is told %d again", n)
	}
	s.plug(testPort{gone.b, 1}, peer)
	s.run(time.Second, nil)
	if got := a.notices(true); !slices.Contains(got, back) {
		t.Errorf("a is told %v", got)
	}
	// Groups.
	mask, r := member(clients[5], 9, sa.FullMember)
	_, _ = clients[5].ask(mad.MethodSet, sa.AttrMCMemberRecord, mask, r)
	_, _ = clients[5].ask(sa.MethodDelete, sa.AttrMCMemberRecord, mask, r)
	s.run(500*time.Millisecond, nil)
	if got := b.notices(true); !slices.Equal(got, []string{"66 of 9"}) {
		t.Errorf("b is told %v", got)
	}
	if got := a.notices(true); !slices.Equal(got, []string{"66 of 9", "67 of 9"}) {
		t.Errorf("a is told %v", got)
	}
	a.want(0, subscribe(a, info(anyTrap, 0)))
	a.want(sa.StatusInvalid, subscribe(a, info(anyTrap, 0)))
	// A subscriber that never answers is not asked for ever.
	s.unplug(testPort{gone.b, 1})
	s.run(20*time.Second, nil)
	if n := len(mgr.m.admin.reports); n != 0 {
		t.Errorf("%d reports are left", n)
	}
}

// Partitions are in the tables of members and of the ports before them.
func TestPartitions(t *testing.T) {
	s := newSubnet(t)
	all := s.star(4)
	guid := func(i int) uint64 { return all[i].node.Ports[1].GUID }
	mgr := s.manage(all[0], Config{Partitions: []Partition{{PKey: 0x7fff, Adapters: FullMember},
		{PKey: 0x12, IPoIB: true, Members: map[uint64]Membership{guid(1): FullMember, guid(2): LimitedMember}}}})
	s.up(mgr)
	s.check(mgr)
	for i, want := range [][]ib.PKey{{0xffff, 0}, {0xffff, 0x8012}, {0xffff, 0x0012}, {0xffff, 0}} {
		own := all[i].node.Ports[1].Partition
		peer := all[i].peers[1].node.node.Ports[all[i].peers[1].port].Partition
		full := []ib.PKey{0xffff, want[1]}
		if full[1] != 0 {
			full[1] |= 0x8000 // packets of limited members get through
		}
		if !slices.Equal(own.PKeys[:2], want) || !slices.Equal(peer.PKeys[:2], full) || !peer.EnforceIn ||
			!peer.EnforceOut {
			t.Errorf("adapter %d: %v, behind %v", i, own.PKeys, peer)
		}
	}
	c := &client{s: s, b: all[1]}
	status, records := c.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID|sa.PathPKey,
		&sa.PathRecord{SGID: c.gid(), DGID: makeGID(0xfe80<<48, guid(2)), PKey: 0x8012})
	c.want(0, status)
	var r sa.PathRecord
	if r.Decode(records[0]); r.PKey&0x7fff != 0x12 {
		t.Errorf("partition %#x", r.PKey)
	}
	status, _ = c.ask(mad.MethodGet, sa.AttrMCMemberRecord, sa.MemberMGID, &sa.MCMemberRecord{MGID: broadcastGID(0x12)})
	c.want(0, status)
	d := &client{s: s, b: all[3]}
	status, _ = d.ask(mad.MethodSet, sa.AttrMCMemberRecord, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState,
		&sa.MCMemberRecord{MGID: broadcastGID(0x12), PortGID: d.gid(), Join: sa.FullMember})
	d.want(sa.StatusInvalid, status)
}

// Where partitions are configured, ports are limited members of the default one: they have paths to the
// manager, and to others by the partitions that they share.
func TestLimitedDefault(t *testing.T) {
	s := newSubnet(t)
	all := s.star(4)
	guid := func(i int) uint64 { return all[i].node.Ports[1].GUID }
	mgr := s.manage(all[0], Config{Partitions: []Partition{{PKey: 0x12,
		Members: map[uint64]Membership{guid(1): FullMember, guid(2): FullMember}}}})
	s.up(mgr)
	s.check(mgr)
	path := func(from, to int) (mad.Status, ib.PKey) {
		c := &client{s: s, b: all[from]}
		status, records := c.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID,
			&sa.PathRecord{SGID: c.gid(), DGID: makeGID(0xfe80<<48, guid(to))})
		var r sa.PathRecord
		if status == mad.StatusOK {
			r.Decode(records[0])
		}
		return status, r.PKey
	}
	for _, c := range []struct {
		from, to int
		want     ib.PKey
	}{{1, 2, 0x8012}, {1, 0, 0x7fff}, {0, 3, 0xffff}, {1, 3, 0}} {
		if status, key := path(c.from, c.to); key != c.want || (status == mad.StatusOK) != (c.want != 0) {
			t.Errorf("from %d to %d: status %v, P_Key %#x, want %#x", c.from, c.to, status, key, c.want)
		}
	}
}
