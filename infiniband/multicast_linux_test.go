// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// member is a port that may join a group.
type member struct {
	*datagrams
	adapter string
	seen    map[string]bool
}

var lab = netip.MustParseAddr("239.255.77.2")

func newMember(t *testing.T, f *infiniband.Fabric, adapter string) *member {
	t.Helper()
	m := &member{newDatagrams(t, device(t, f, adapter)), adapter, make(map[string]bool)}
	m.ok(m.id.Bind(netip.AddrPort{}))
	m.open(m.id)
	return m
}

func (m *member) join() *cm.UDParam {
	m.t.Helper()
	m.ok(m.id.JoinMulticast(lab))
	return &m.event(cm.MulticastJoin).UD
}

// poll receives completions.
func (m *member) poll() {
	var wcs [8]verbs.WC
	for _, wc := range wcs[:m.cq.Poll(wcs[:])] {
		if wc.Op != verbs.WCRecv || wc.Status != verbs.StatusSuccess {
			continue
		}
		slot := int(wc.ID)
		m.seen[string(m.mr.Bytes()[256*slot+40:256*slot+int(wc.ByteLen)])] = true
		m.ok(m.id.QP().PostRecv(&verbs.RecvWR{ID: wc.ID, SGL: []verbs.SGE{m.mr.SGE(256*slot, 256)}}))
	}
}

// texts counts the datagrams of arrives, as members remember those of earlier calls.
var texts atomic.Uint32

// arrives sends datagrams until one has come to all members: datagrams that are sent before the switches have
// the group are lost.
func arrives(t *testing.T, from *member, to *cm.UDParam, what string, members ...*member) {
	t.Helper()
	var sent []string
	for late := time.Now().Add(upTime); ; {
		text := fmt.Sprint(what, texts.Add(1))
		sent = append(sent, text)
		from.send(from.id.QP(), to, text)
		for wait := time.Now().Add(100 * time.Millisecond); time.Now().Before(wait); time.Sleep(time.Millisecond) {
			from.poll()
			for _, m := range members {
				m.poll()
			}
			if slices.ContainsFunc(sent, func(text string) bool { // a slow machine may take longer for each
				return !slices.ContainsFunc(members, func(m *member) bool { return !m.seen[text] })
			}) {
				return
			}
		}
		if time.Now().After(late) {
			for _, m := range members {
				t.Errorf("%s: %s has it: %v", text, m.adapter, m.seen[text])
			}
			t.FailNow()
		}
	}
}

// multicasts returns how many multicast packets a port of an adapter has received.
func multicasts(t *testing.T, f *infiniband.Fabric, adapter string) uint64 {
	t.Helper()
	return findNode(t, f, adapter).Ports[0].Counters.MulticastRcv
}

// Applications join and leave a group by the subnet administrator. Datagrams go to all members and to no
// other adapter, and so they do with a cable of the group's tree pulled.
func TestMulticastTree(t *testing.T) {
	for name, opensm := range map[string]bool{"opensm": true, "built-in": false} {
		t.Run(name, func(t *testing.T) {
			f, err := infiniband.GenerateFabric("fat-tree:4,2", &infiniband.FabricOptions{NoManager: opensm})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			x := newTools(t, f, "ibroute")
			if opensm {
				// OpenSM takes groups with an IP signature for IPoIB's, unless configured otherwise, and refuses the
				// Q_Key of connection managers there, which Linux uses, too.
				o := newTools(t, f, "opensm").openSM("host-2", "ipoib_mcgroup_creation_validation FALSE")
				o.allowed = unanswered // it may ask through the cable that is pulled before it finds out
			}
			softfabric.AwaitActive(t, f)
			x.multicast(t, f)
		})
	}
}

func (x *tools) multicast(t *testing.T, f *infiniband.Fabric) {
	a, b, c := newMember(t, f, "host-1"), newMember(t, f, "host-6"), newMember(t, f, "host-11")
	outside := newMember(t, f, "host-5")
	to := a.join()
	for _, m := range []*member{b, c} {
		if got := m.join(); got.AH.DLID != to.AH.DLID || got.AH.DGID != to.AH.DGID {
			t.Fatalf("%s has joined %+v, and %s %+v", m.adapter, got.AH, a.adapter, to.AH)
		}
	}
	none := []string{"host-3", "host-5", "host-7", "host-16"}
	before := make(map[string]uint64)
	for _, n := range none {
		before[n] = multicasts(t, f, n)
	}
	arrives(t, a, to, "to all", a, b, c)
	arrives(t, c, to, "from another", a, b, c)
	arrives(t, outside, to, "from none of them", a, b, c)

	cut, other := treeCable(t, f, b.adapter, func() { arrives(t, a, to, "looking", b) })
	row := fmt.Sprintf("0x%04x ", to.AH.DLID)
	if out := x.run("ibroute", "-M", number(findNode(t, f, cut.Node).LID)); !strings.Contains(strings.ToLower(out),
		row) {
		t.Errorf("ibroute -M of %s has no %q:\n%s", cut.Node, row, out)
	}
	if err := f.Pull(cut); err != nil {
		t.Fatal(err)
	}
	softfabric.AwaitActive(t, f)
	arrives(t, a, to, "without a cable", a, b, c)
	arrives(t, b, to, "back without a cable", a, b, c)
	if err := f.Plug(cut, other); err != nil {
		t.Fatal(err)
	}
	softfabric.AwaitActive(t, f)
	arrives(t, a, to, "with the cable again", a, b, c)

	b.ok(b.id.LeaveMulticast(lab))
	waitFor(t, "the switches leave "+b.adapter+" out", func() bool {
		n := multicasts(t, f, b.adapter)
		arrives(t, a, to, "to the others", a, c)
		return multicasts(t, f, b.adapter) == n
	})
	b.poll()
	n := len(b.seen)
	arrives(t, a, to, "to the others still", a, c)
	if b.poll(); len(b.seen) != n {
		t.Errorf("%s has left and gets datagrams", b.adapter)
	}
	b.join()
	arrives(t, a, to, "joined again", a, b, c)
	outside.poll()
	for _, n := range none {
		if got := multicasts(t, f, n) - before[n]; got != 0 {
			t.Errorf("%s is no member and got %d multicast packets", n, got)
		}
	}
}

// treeCable returns a cable by which multicasts come to the switch of an adapter.
func treeCable(t *testing.T, f *infiniband.Fabric, adapter string, send func()) (cut, other infiniband.End) {
	t.Helper()
	v := f.View()
	leaf := slices.IndexFunc(v.Cables,
		func(c infiniband.CableView) bool { return c.A.Node == adapter || c.B.Node == adapter })
	name := v.Cables[leaf].A.Node
	if name == adapter {
		name = v.Cables[leaf].B.Node
	}
	got := func(e infiniband.End) uint64 { return findNode(t, f, e.Node).Ports[e.Port-1].Counters.MulticastRcv }
	count := make(map[infiniband.End]uint64)
	for _, p := range findNode(t, f, name).Ports {
		e := infiniband.End{Node: name, Port: p.Number}
		count[e] = got(e)
	}
	send()
	for _, c := range v.Cables {
		for _, e := range [][2]infiniband.End{{c.A, c.B}, {c.B, c.A}} {
			if n, ok := count[e[0]]; ok && !findNode(t, f, e[1].Node).Adapter() && got(e[0]) > n {
				return e[0], e[1]
			}
		}
	}
	t.Fatalf("multicasts come to %s by no cable from another switch", name)
	return
}
