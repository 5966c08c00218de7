// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/connect"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// connectTimeout limits how long connecting by address takes.
const connectTimeout = 30 * time.Second

func (s *side) init() verbs.QPInit {
	return verbs.QPInit{Type: s.Transport.qpType(), SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: s.TxDepth, MaxRecvWR: s.RxDepth, MaxInline: max(s.Inline, 0)}}
}

// openByNumber creates the queue pairs, whose numbers are sent to the other side. They are connected from the address
// from.
func (s *side) openByNumber(from netip.Addr) error {
	row, err := s.pd.Device().BestGID(from)
	if err != nil {
		return err
	}
	s.gid = row.Index
	for i := range s.streams {
		qp, err := s.pd.CreateQP(s.init())
		if err != nil {
			return err
		}
		s.close = append(s.close, qp.Close)
		ep, err := qp.Endpoint(s.gid)
		if err != nil {
			return err
		}
		s.local.QPs = append(s.local.QPs, ep)
		s.streams[i].qp = qp
	}
	return nil
}

// connectByNumber takes queue pair i to RTS. Datagrams have an address handle.
func (s *side) connectByNumber(i int) (*verbs.AH, error) {
	qp, local, remote := s.streams[i].qp, s.local.QPs[i], s.peer.QPs[i]
	if s.Transport != UD {
		return nil, qp.Connect(local, remote,
			&verbs.ConnectOptions{SGIDIndex: s.gid, MTU: s.path, RdAtomic: uint8(s.Outstanding)})
	}
	if err := qp.StartUD(udQKey); err != nil {
		return nil, err
	}
	ah, err := s.pd.CreateAH(local.To(remote, s.gid))
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, ah.Close)
	return ah, nil
}

// openByAddress has the server listen. The queue pairs are created as connections come.
func (s *side) openByAddress(mtu verbs.MTU) (err error) {
	if s.Transport != RC {
		return fmt.Errorf("%s has no %s: iWARP has RC only", s.pd.Device().Name(), s.Transport)
	}
	for range s.streams {
		s.local.QPs = append(s.local.QPs, verbs.Endpoint{MTU: mtu})
	}
	if s.client {
		return nil
	}
	if s.listen, err = cm.Listen(context.Background(), s.pd.Device(), ":0"); err != nil {
		return err
	}
	s.close = append(s.close, s.listen.Close)
	s.local.Listen = s.listen.Addr()
	return nil
}

// connectByAddress makes the connections, from the client to the server.
func (s *side) connectByAddress(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	create := func(i int, id *cm.ID) (err error) {
		s.streams[i].qp, err = id.CreateQP(s.pd, s.init())
		return err
	}
	var conns []*cm.Conn
	var err error
	switch {
	case !s.client:
		conns, err = connect.Accept(ctx, s.listen, s.QPs, uint8(s.Outstanding), create)
	case !s.peer.Listen.IsValid():
		err = fmt.Errorf("%s is an iWARP device, and the other side's is not: both need the same kind",
			s.pd.Device().Name())
	default:
		conns, err = connect.Dial(ctx, s.pd.Device(), s.peer.Listen, s.QPs, uint8(s.Outstanding), create)
	}
	for _, c := range conns {
		s.close = append(s.close, c.Close)
	}
	return err
}
