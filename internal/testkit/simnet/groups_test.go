// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	groupKey   = verbs.QKey(0x22222222)
	groupSlots = 64
	groupSlot  = 40 + 1024
	groupHead  = 8 // the sender, the datagram's number, the receiver
	manyGroups = 3
	toGroup    = 0x80 // added to a group's number
)

// member is a host's UD queue pair.
type member struct {
	w    *world
	host int
	pd   *verbs.PD
	cq   *verbs.CQ
	recv *verbs.CQ
	qp   *verbs.QP
	mr   *verbs.MR // receives, and behind them sent datagrams
	ep   verbs.Endpoint
	rand *rand.Rand

	deaf   bool // to its own multicasts
	groups [manyGroups]bool
	peers  []*member
	ahs    map[int]*verbs.AH
	sent   []int          // by destination, of each datagram that was sent
	got    map[[2]int]int // how often a sender's datagram came
	last   map[[2]int]int // a sender's last datagram to a destination
}

// runGroups has hosts send datagrams to each other and to multicast groups that some of them are in. Datagrams
// arrive as they were sent, at their destinations; over paths that lose nothing, all of them.
func runGroups(w *world) error {
	count := 1 + w.rand.IntN(40)
	w.tell(", %d datagrams each", count)
	var members []*member
	for i := range w.hosts {
		m := &member{w: w, host: i, rand: rand.New(rand.NewPCG(w.rand.Uint64(), 7)), ahs: make(map[int]*verbs.AH),
			got: make(map[[2]int]int), last: make(map[[2]int]int)}
		m.deaf = w.rand.IntN(3) == 0
		for g := range m.groups {
			m.groups[g] = w.rand.IntN(2) == 0
		}
		if err := m.open(); err != nil {
			return err
		}
		members = append(members, m)
	}
	for _, m := range members {
		m.peers = members
		if err := m.start(); err != nil {
			return err
		}
	}
	listen, stop := context.WithCancel(context.Background())
	defer stop()
	received := make(chan error, len(members))
	for _, m := range members {
		go func() { received <- m.receive(listen) }()
	}
	err := w.all(func(ctx context.Context, host int) error { return members[host].send(ctx, count) })
	w.net.Sleep(2 * time.Second)
	stop()
	for range members {
		if e := <-received; e != nil && err == nil {
			err = e
		}
	}
	for _, m := range members {
		if e := m.end(); e != nil && err == nil {
			err = e
		}
	}
	if p := w.net.Default; err == nil && p.Loss == 0 && p.Corrupt == 0 && w.calmly {
		err = complete(members)
	}
	return err
}

func group(g int) verbs.GID { return ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, 255, 1, byte(g)})) }

func (m *member) open() (err error) {
	dev := m.w.devs[m.host]
	opt := m.w.cqOptions()
	if m.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if m.cq, err = dev.CreateCQ(16, opt); err != nil {
		return err
	}
	if m.recv, err = dev.CreateCQ(groupSlots, opt); err != nil {
		return err
	}
	if m.mr, err = m.pd.RegMR(make([]byte, (groupSlots+1)*groupSlot), verbs.LocalWrite); err != nil {
		return err
	}
	init := verbs.QPInit{Type: verbs.UD, SendCQ: m.cq, RecvCQ: m.recv, Cap: verbs.QPCap{MaxRecvWR: groupSlots}}
	if m.deaf {
		init.BlockSelfMulticast = true
	}
	if m.qp, err = m.pd.CreateQP(init); err != nil {
		return err
	}
	if m.ep, err = m.qp.Endpoint(0); err != nil {
		return err
	}
	if err := m.qp.StartUD(groupKey); err != nil {
		return err
	}
	for slot := range groupSlots {
		if err := m.postRecv(slot); err != nil {
			return err
		}
	}
	return nil
}

// start makes the ways to everybody, and joins groups.
func (m *member) start() error {
	for i, p := range m.peers {
		ah, err := m.pd.CreateAH(verbs.AHAttr{DGID: p.ep.GID})
		if err != nil {
			return err
		}
		m.ahs[i] = ah
	}
	for g, in := range m.groups {
		ah, err := m.pd.CreateAH(verbs.AHAttr{DGID: group(g)})
		if err != nil {
			return err
		}
		m.ahs[toGroup+g] = ah
		if in {
			if err := m.qp.AttachMulticast(group(g), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) postRecv(slot int) error {
	return m.qp.PostRecv(&verbs.RecvWR{ID: uint64(slot), SGL: []verbs.SGE{m.mr.SGE(slot*groupSlot, groupSlot)}})
}

// send sends datagrams, one at a time and not faster than receives are posted.
func (m *member) send(ctx context.Context, count int) error {
	m.w.at(m.host, "sending datagrams")
	var wcs [1]verbs.WC
	for number := range count {
		to := m.rand.IntN(len(m.peers))
		wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, RemoteQPN: m.peers[to].qp.Num(),
			RemoteQKey: groupKey}
		if m.rand.IntN(2) == 0 {
			to = toGroup + m.rand.IntN(manyGroups)
			wr.RemoteQPN = ib.QPNMulticast
		}
		wr.AH = m.ahs[to]
		m.sent = append(m.sent, to)
		n := groupHead + m.rand.IntN(groupSlot-40-groupHead+1)
		m.mr.Do(func(b []byte) {
			b = b[groupSlots*groupSlot:]
			b[0], b[1], b[2], b[3] = byte(m.host), byte(to), 0, 0
			binary.BigEndian.PutUint32(b[4:], uint32(number))
			stamp(b[groupHead:n], m.host, number)
		})
		wr.SGL = []verbs.SGE{m.mr.SGE(groupSlots*groupSlot, n)}
		if err := m.qp.PostSend(&wr); err != nil {
			return err
		}
		if n, err := m.cq.Wait(ctx, wcs[:]); err != nil {
			return err
		} else if n != 1 || wcs[0].Status != verbs.StatusSuccess {
			return wcs[0].Status.Err()
		}
		m.w.net.Sleep(time.Duration(m.rand.IntN(200_000)))
	}
	return nil
}

// receive takes datagrams.
func (m *member) receive(ctx context.Context) error {
	var wcs [4]verbs.WC
	for {
		n, err := m.recv.Wait(ctx, wcs[:])
		if err == context.Canceled {
			return nil
		} else if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if wc.Status != verbs.StatusSuccess {
				return wrongf("a receive completes with %v", wc.Status)
			}
			var err error
			m.mr.Do(func(b []byte) { err = m.take(wc, b[int(wc.ID)*groupSlot:]) })
			if err != nil {
				return err
			}
			if err := m.postRecv(int(wc.ID)); err != nil {
				return err
			}
		}
	}
}

// take checks a datagram.
func (m *member) take(wc *verbs.WC, b []byte) error {
	n := int(wc.ByteLen)
	if n < grhLen+groupHead || n > groupSlot || wc.Flags&verbs.WithGRH == 0 {
		return wrongf("a datagram of %d bytes with flags %v", n, wc.Flags)
	}
	src, dst := verbs.GID(ib.GIDFromAddr(netip.AddrFrom4([4]byte(b[32:36])))), netip.AddrFrom4([4]byte(b[36:40]))
	b = b[grhLen:n]
	from, to, number := int(b[0]), int(b[1]), int(binary.BigEndian.Uint32(b[4:]))
	switch {
	case from >= len(m.peers) || !stamped(b[groupHead:], from, number):
		return wrongf("a datagram that nobody sent")
	case wc.SrcQPN != m.peers[from].qp.Num() || src != m.peers[from].ep.GID:
		return wrongf("a datagram of host %d comes from queue pair %v at %v", from, wc.SrcQPN, src)
	case to < toGroup && (to != m.host || dst != m.w.hosts[to].Addr()):
		return wrongf("a datagram for host %d comes to host %d", to, m.host)
	case to >= toGroup && (!m.groups[to-toGroup] || dst != group(to-toGroup).Addr() || from == m.host && m.deaf):
		return wrongf("a datagram of host %d for group %d comes to host %d", from, to-toGroup, m.host)
	}
	p := &m.w.net.Default
	which, way := [2]int{from, number}, [2]int{from, to}
	if m.got[which]++; m.got[which] > 1 && p.Duplicate == 0 {
		return wrongf("datagram %d of host %d comes twice", number, from)
	}
	if last, ok := m.last[way]; ok && number < last && p.Duplicate == 0 && p.Reorder == 0 {
		return wrongf("datagram %d of host %d comes after datagram %d", number, from, last)
	}
	m.last[way] = number
	return nil
}

// end leaves the groups and closes the queue pair.
func (m *member) end() error {
	for g, in := range m.groups {
		if in {
			if err := m.qp.DetachMulticast(group(g), 0); err != nil {
				return err
			}
		}
	}
	return m.qp.Close()
}

// complete reports datagrams that have not come.
func complete(members []*member) error {
	for _, from := range members {
		for number, to := range from.sent {
			for _, m := range members {
				want := to == m.host || to >= toGroup && m.groups[to-toGroup] && (m != from || !m.deaf)
				if want && m.got[[2]int{from.host, number}] == 0 {
					return wrongf("datagram %d of host %d, to %#x, has not come to host %d", number, from.host, to,
						m.host)
				}
			}
		}
	}
	return nil
}
