// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/connect"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	sideMemory = 16 << 20 // limit of the bytes that a step sends, and that arrive
	guardLen   = 64       // bytes after the destination that must stay 0
	wordOffset = 8        // of the word for atomics; its neighbors must not change
	grhOffset  = 64       // in the same region: the GRH of datagrams
	wordsLen   = 128
	sideQKey   = verbs.QKey(0x0ddba11)
	maxSends   = 128
	maxRecvs   = 1024
	maxSilence = 30 * time.Second // of the peer, before a side gives up
)

// side is one process's end of the demo.
type side struct {
	role           role
	dev            *verbs.Device
	attr           verbs.DeviceAttr
	pd             *verbs.PD
	cq             *verbs.CQ
	rc, uc, ud     *verbs.QP
	gid            int          // row of the GID table
	listen         *cm.Listener // second process, by address
	out, in, words *verbs.MR
	ah             *verbs.AH // of the peer, for datagrams
	local, remote  hello

	completed int // sends of the present step
	received  int // receives of it
	wcs       [16]verbs.WC
}

// newSide creates everything that a side needs on its device. The device owns it.
func newSide(r role, dev *verbs.Device) (s *side, err error) {
	s = &side{role: r, dev: dev, attr: dev.Query()}
	if s.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if s.cq, err = dev.CreateCQ(4*maxRecvs, nil); err != nil {
		return nil, err
	}
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	for _, m := range []struct {
		mr   **verbs.MR
		size int
	}{{&s.out, sideMemory}, {&s.in, sideMemory + guardLen}, {&s.words, wordsLen}} {
		if *m.mr, err = s.pd.AllocMR(m.size, access); err != nil {
			return nil, err
		}
	}
	s.local = hello{Device: dev.Name(), In: s.in.Remote(), Out: s.out.Remote(), Words: s.words.Remote()}
	if connect.ByAddress(dev) {
		return s, s.openByAddress()
	}
	row, err := dev.BestGID(netip.Addr{})
	if err != nil {
		return nil, err
	}
	s.gid = row.Index
	for _, q := range []struct {
		typ verbs.QPType
		qp  **verbs.QP
		ep  *verbs.Endpoint
	}{{verbs.RC, &s.rc, &s.local.RC}, {verbs.UC, &s.uc, &s.local.UC}, {verbs.UD, &s.ud, &s.local.UD}} {
		if !s.has(q.typ) {
			continue
		}
		if *q.qp, err = s.pd.CreateQP(s.init(q.typ)); err != nil {
			return nil, err
		}
		if *q.ep, err = (*q.qp).Endpoint(s.gid); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *side) init(t verbs.QPType) verbs.QPInit {
	return verbs.QPInit{Type: t, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: maxSends, MaxRecvWR: maxRecvs}}
}

// openByAddress has the second process listen.
func (s *side) openByAddress() (err error) {
	if s.role == second {
		if s.listen, err = cm.Listen(context.Background(), s.dev, ":0"); err == nil {
			s.local.Listen = s.listen.Addr()
		}
	}
	return err
}

// connectByAddress makes the connection, from the first process to the second. The device owns it.
func (s *side) connectByAddress(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, maxSilence)
	defer cancel()
	const depth = 16 // READs and atomics in flight
	create := func(_ int, id *cm.ID) (err error) {
		s.rc, err = id.CreateQP(s.pd, s.init(verbs.RC))
		return err
	}
	if s.role == second {
		_, err = connect.Accept(ctx, s.listen, 1, depth, create)
	} else {
		_, err = connect.Dial(ctx, s.dev, s.remote.Listen, 1, depth, create)
	}
	return err
}

// connect takes the queue pairs to RTS.
func (s *side) connect(ctx context.Context, remote *hello) (err error) {
	s.remote = *remote
	if connect.ByAddress(s.dev) {
		return s.connectByAddress(ctx)
	}
	opts := &verbs.ConnectOptions{SGIDIndex: s.gid}
	if s.local.RC.LID != 0 {
		// 1.07 s, and 8.6 s with all retries: the default's 2.1 s are short where a process has to wait for a processor
		// while a subnet manager finds another way. Lost packets are repeated sooner all the same.
		opts.Timeout = 18
	}
	if err := s.rc.Connect(s.local.RC, remote.RC, opts); err != nil {
		return err
	}
	if s.has(verbs.UC) {
		if err := s.uc.Connect(s.local.UC, remote.UC, &verbs.ConnectOptions{SGIDIndex: s.gid}); err != nil {
			return err
		}
	}
	if !s.has(verbs.UD) {
		return nil
	}
	if err := s.ud.StartUD(sideQKey); err != nil {
		return err
	}
	s.ah, err = s.pd.CreateAH(s.local.UD.To(remote.UD, s.gid))
	return err
}

// has reports whether the device has queue pairs of a type.
func (s *side) has(t verbs.QPType) bool {
	switch t {
	case verbs.UC:
		return s.attr.Caps&verbs.CapUC != 0
	case verbs.UD:
		return s.attr.Caps&verbs.CapUD != 0
	}
	return true
}

// iwarp reports whether the device speaks RDMAP, which has no SEND with immediate data, and whose
// WRITEs complete before they have arrived (RFC 5040 section 5.5).
func (s *side) iwarp() bool { return s.attr.Transport == verbs.TransportIWARP }

// can reports whether the device supports a step. Over iWARP atomics and immediate data with a WRITE come together
// (RFC 7306), and siw has neither.
func (s *side) can(st *step) bool {
	switch {
	case s.iwarp() && st.Op == verbs.OpSendImm:
		return false
	case st.atomic(), s.iwarp() && st.Op == verbs.OpWriteImm:
		return s.attr.Atomic != verbs.AtomicNone
	}
	return s.has(st.QP)
}

// tcpAddress is the address at which TCP is measured: the device's own, or loopback if the host has none for it.
func (s *side) tcpAddress() netip.Addr {
	if n, err := kinds.Parse(s.dev.Name()); err == nil && !n.Kind.Soft {
		if a, ok := n.IP(); ok {
			return a
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func (s *side) qp(t verbs.QPType) *verbs.QP {
	switch t {
	case verbs.UC:
		return s.uc
	case verbs.UD:
		return s.ud
	}
	return s.rc
}

// idle moves data while there is nothing to do.
func (s *side) idle() { s.cq.Poll(s.wcs[:0]) }
