// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Flows of datagrams: a UD queue pair at either end, and messages of one MTU at most, with their number as immediate
// data. Nothing is acknowledged or sent again, and nothing limits the rate but the link. Such a flow ends when nothing
// of it is left in the network.

const qkey verbs.QKey = 0x11111111

// grhLen is the bytes before the payload of a datagram in its receive.
const grhLen = 40

// datagrams is the state of a flow of datagrams beside its queue pairs.
type datagrams struct {
	to      *verbs.AH
	network int  // packets in the network
	last    Time // when one has arrived
}

// openDatagrams takes the UD queue pairs of a flow, its sender's first, to RTS.
func (s *Sim) openDatagrams(from, to *pair) error {
	entropy := s.rand.Uint32()
	for i, q := range [2]*pair{from, to} {
		far := [2]*pair{to, from}[i]
		attr := verbs.QPAttr{Port: 1, QKey: qkey, SQPSN: verbs.PSN(s.rand.Uint32N(1 << 24))}
		for k, mask := range [3]verbs.QPMask{verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey, 0,
			verbs.MaskSQPSN} {
			attr.State = verbs.StateInit + verbs.QPState(k)
			if err := q.Modify(&attr, mask|verbs.MaskState); err != nil {
				return err
			}
		}
		v, err := q.host.resolve(far.host.attr())
		if err != nil {
			return err
		}
		q.remote, q.entropy, q.to = far.host.num, entropy+uint32(i), v.Path.(*peer)
	}
	ah, err := from.host.addressHandle(to.host.attr())
	from.run.datagrams = &datagrams{to: ah}
	return err
}

// datagramReceives is how many receives a flow has posted.
func (s *Sim) datagramReceives(r *run) int { return min(r.messages, s.config.Host.Receives) }

// datagramReceive is the bytes of a receive.
func (s *Sim) datagramReceive() int { return grhLen + s.config.Host.MTU.Bytes() }

// postDatagram posts receive i.
func (s *Sim) postDatagram(r *run, i int) {
	h, at := r.other.host, r.to.Addr()
	if s.config.Payload {
		at += uint64(i * s.datagramReceive())
	}
	h.sges[0] = verbs.SGE{Addr: at, Length: uint32(s.datagramReceive()), LKey: r.to.Key()}
	h.recvs[0] = verbs.RecvWR{ID: uint64(i), SGL: h.sges[:]}
	if _, err := r.other.PostRecv(h.recvs[:]); err != nil {
		s.fail(err)
	}
}

// receivedDatagram takes the completion of a receive, and posts it again.
func (s *Sim) receivedDatagram(r *run, wc *verbs.WC) {
	n := int64(wc.ByteLen) - grhLen
	r.flow.Delivered += n
	r.datagrams.last = s.now
	if s.config.Payload {
		at, from := int(wc.ID)*s.datagramReceive()+grhLen, int64(wc.Imm)*int64(s.config.Host.MTU.Bytes())
		s.Compared += n
		if !bytes.Equal(r.to.Bytes()[at:at+int(n)], r.from.Bytes()[from:from+n]) {
			s.fail(fmt.Errorf("datagram %d from host %d to host %d differs from what was sent", wc.Imm, r.flow.Src,
				r.flow.Dst))
		}
	}
	s.postDatagram(r, int(wc.ID))
}

// datagramGone is that a packet of a flow of datagrams has arrived, or is lost.
func (s *Sim) datagramGone(r *run) {
	if r.datagrams.network--; r.datagrams.network == 0 && r.done == r.messages {
		s.finish(r)
	}
}

// attr is the address vector of packets to a host.
func (h *host) attr() verbs.AHAttr {
	return verbs.AHAttr{DGID: ib.GIDFromAddr(addressOf(h.num)), Port: 1}
}

// addressHandle makes an address handle, which work requests for datagrams name.
func (h *host) addressHandle(attr verbs.AHAttr) (*verbs.AH, error) {
	if h.pd == nil {
		var err error
		if h.pd, err = driver.NewDevice(handleDriver{host: h}).AllocPD(); err != nil {
			return nil, err
		}
	}
	return h.pd.CreateAH(attr)
}

// handleDriver is as much of a driver as makes address handles. Its embedded interface is nil.
type handleDriver struct {
	driver.Device
	host *host
}

func (handleDriver) SetEventSink(func(verbs.EventType, int)) {}
func (handleDriver) Close() error                            { return nil }
func (d handleDriver) AllocPD() (driver.PD, error)           { return handlePD{host: d.host}, nil }

type handlePD struct {
	driver.PD
	host *host
}

func (p handlePD) CreateAH(attr verbs.AHAttr) (driver.AH, error) {
	v, err := p.host.resolve(attr)
	return handle{v}, err
}

type handle struct{ vector *ibta.Vector }

func (h handle) Vector() *ibta.Vector { return h.vector }
func (h handle) Destroy() error       { return nil }
