// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/connect"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// batch is how many completions are taken and receives reposted at once.
	batch = 64
	// grh is the length of the header before the payload of a received datagram (IBTA 11.4.1.2).
	grh = 40
	// udQKey is the queue key of the datagram queue pairs.
	udQKey = 0x11111111
	// stallTimeout is how long nothing may happen while something is outstanding.
	stallTimeout = 10 * time.Second
)

var errStalled = fmt.Errorf("nothing completed for %s: is the other side gone, or was a message of UC or UD lost?",
	units.Period(stallTimeout))

// endpoint holds the parameters that each side sends to the other.
type endpoint struct {
	QPs []verbs.Endpoint // by address: numbers mean nothing
	Src verbs.Remote     // READ's
	Dst verbs.Remote     // WRITE's and atomics'

	Listen netip.AddrPort `json:",omitzero"` // of the server, which is connected to by address; zero: by numbers
}

// side is one end of a measurement: its objects and the state of its loop.
type side struct {
	Config
	client  bool
	path    verbs.MTU
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	src     *verbs.MR // data to send, also by the peer's READs
	dst     *verbs.MR // for data that arrives
	streams []stream
	gid     int          // row of the GID table
	listen  *cm.Listener // server by address
	local   endpoint
	peer    endpoint
	close   []func() error

	wcs   [batch]verbs.WC
	armed bool // an event was requested and has not arrived

	halter
	peerSent atomic.Uint64
	progress atomic.Uint64 // approximate number of messages so far

	received    uint64
	first, last time.Time // arrivals

	mark mark
	lastByte
}

// stream is the loop's state of one queue pair.
type stream struct {
	qp         *verbs.QP
	wrs        []verbs.SendWR // one post
	recvs      []verbs.RecvWR // one list of receives, all alike
	posted     uint64
	done       uint64
	limit      uint64 // of posted
	unsignaled uint32 // posted since the last that completes
	toRepost   int    // receives to give back
	seq        uint64 // CompareSwap: the value of the peer's word
}

// newSide creates the objects of a measurement. from is the address from which this host reaches the other side.
func newSide(dev *verbs.Device, c Config, client bool, from netip.Addr) (s *side, err error) {
	s = &side{Config: c, client: client}
	s.Inline = c.inlineOn(dev.Query().MaxInline)
	s.mark.next = ^uint64(0)
	defer func() {
		if err != nil {
			s.free()
			s = nil
		}
	}()
	port, err := dev.Port(1)
	if err != nil {
		return s, err
	}
	if s.looks = 1; dev.Query().Caps&verbs.CapWatch == 0 {
		s.looks = soloLooks
	}
	s.path = c.mtu(port.ActiveMTU)
	if s.path > port.ActiveMTU {
		return s, fmt.Errorf("path MTU %v is more than the port of %s has: %v", s.path, dev.Name(), port.ActiveMTU)
	}
	if s.pd, err = dev.AllocPD(); err != nil {
		return s, err
	}
	s.close = append(s.close, s.pd.Close)
	opt := &verbs.CQOptions{NoTimestamps: true}
	if c.Events {
		if s.channel, err = dev.CreateCompChannel(); err != nil {
			return s, err
		}
		s.close = append(s.close, s.channel.Close)
		opt.Channel = s.channel
	}
	if s.cq, err = dev.CreateCQ(c.QPs*(c.TxDepth+c.RxDepth)+1, opt); err != nil {
		return s, err
	}
	s.close = append(s.close, s.cq.Close)
	room := (c.Size + s.head() + 63) &^ 63
	if s.src, err = s.pd.AllocMR(c.QPs*room, verbs.LocalWrite|verbs.RemoteRead); err != nil {
		return s, err
	}
	s.close = append(s.close, s.src.Close)
	if s.dst, err = s.pd.AllocMR(c.QPs*room+confirmLen,
		verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic); err != nil {
		return s, err
	}
	s.close = append(s.close, s.dst.Close)
	s.fill(s.src.Bytes())
	s.streams = make([]stream, c.QPs)
	for i := range s.streams {
		s.streams[i].wrs = make([]verbs.SendWR, c.PostList)
	}
	s.local.Src, s.local.Dst = s.src.Remote(), s.dst.Remote()
	if connect.ByAddress(dev) {
		return s, s.openByAddress(port.ActiveMTU)
	}
	return s, s.openByNumber(from)
}

// solo reports whether a device carries out peers' operations without the program, as the kernel's devices do. Polls
// drive Ramjet's own.
func solo(dev *verbs.Device) bool {
	attr := dev.Query()
	return attr.Caps&verbs.CapWatch == 0 && attr.OneSided == ""
}

// head returns the length of the header that arrives before the payload.
func (s *side) head() int {
	if s.Transport == UD {
		return grh
	}
	return 0
}

// room returns the distance between the memory of two queue pairs.
func (s *side) room() int { return s.src.Len() / s.QPs }

// fill fills b with data in which no two nearby bytes are equal.
func (s *side) fill(b []byte) {
	for i := range b {
		b[i] = pattern(i)
	}
}

func pattern(i int) byte { return byte(i*31 + i>>8*7 + 1) }

// connect connects the queue pairs to the peer's and posts the receives.
func (s *side) connect(ctx context.Context, peer endpoint) error {
	if len(peer.QPs) != s.QPs {
		return fmt.Errorf("the other side has %d queue pairs, this one %d", len(peer.QPs), s.QPs)
	}
	s.peer = peer
	for _, ep := range peer.QPs {
		s.path = min(s.path, s.mtu(ep.MTU))
	}
	if s.Transport == UD && s.Size > s.path.Bytes() {
		return fmt.Errorf("size is %d: a datagram holds a path MTU, which is %v here", s.Size, s.path)
	}
	byAddress := connect.ByAddress(s.pd.Device())
	switch {
	case peer.Listen.IsValid() && !byAddress:
		return fmt.Errorf("the other side's device is of iWARP, and %s is not: both need the same kind",
			s.pd.Device().Name())
	case byAddress:
		if err := s.connectByAddress(ctx); err != nil {
			return err
		}
	}
	for i := range s.streams {
		st := &s.streams[i]
		var ah *verbs.AH
		if !byAddress {
			var err error
			if ah, err = s.connectByNumber(i); err != nil {
				return err
			}
		}
		for j := range st.wrs {
			st.wrs[j] = s.request(i, ah)
		}
		if s.Op != Send || s.client && s.Mode == Bandwidth && !s.Both {
			continue
		}
		st.recvs = make([]verbs.RecvWR, min(batch, s.RxDepth))
		for j := range st.recvs {
			st.recvs[j] = verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{s.dst.SGE(i*s.room(), s.Size+s.head())}}
		}
		st.toRepost = s.RxDepth
		if err := st.refill(); err != nil {
			return err
		}
	}
	return nil
}

// request returns the work request of queue pair i.
func (s *side) request(i int, ah *verbs.AH) verbs.SendWR {
	off := i * s.room()
	wr := verbs.SendWR{SGL: []verbs.SGE{s.src.SGE(off, s.Size)}}
	switch s.Op {
	case Send:
		wr.Op = verbs.OpSend
		if ah != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, s.peer.QPs[i].QPN, udQKey
		}
	case Write:
		wr.Op, wr.Remote = verbs.OpWrite, s.peer.Dst.At(uint64(off))
	case Read:
		wr.Op, wr.Remote = verbs.OpRead, s.peer.Src.At(uint64(off))
		wr.SGL[0] = s.dst.SGE(off, s.Size)
	case FetchAdd:
		wr.Op, wr.Remote, wr.Add = verbs.OpFetchAdd, s.peer.Dst.At(uint64(off)), 1
		wr.SGL[0] = s.src.SGE(off, s.Size)
	case CompareSwap:
		wr.Op, wr.Remote = verbs.OpCompareSwap, s.peer.Dst.At(uint64(off))
		wr.SGL[0] = s.src.SGE(off, s.Size)
	}
	if s.inline() {
		wr.Inline, wr.SGL = s.src.Bytes()[off:off+s.Size], nil
	}
	return wr
}

// refill posts the receives that are owed.
func (st *stream) refill() error {
	for st.toRepost > 0 {
		n, err := st.qp.PostRecvList(st.recvs[:min(st.toRepost, len(st.recvs))])
		st.toRepost -= n
		if err != nil {
			return err
		}
	}
	return nil
}

// free closes everything in reverse order.
func (s *side) free() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
	s.close = nil
}

// poll takes completions. In event mode it sleeps until there are some or the loop is woken for
// another reason.
func (s *side) poll() int {
	n := s.cq.Poll(s.wcs[:])
	if n > 0 || !s.Events {
		return n
	}
	for s.halt.Load() == 0 {
		if !s.armed {
			if err := s.cq.ReqNotify(false); err != nil {
				s.fail(err)
				return 0
			}
			s.armed = true
			if n = s.cq.Poll(s.wcs[:]); n > 0 {
				return n
			}
		}
		if _, err := s.channel.Wait(s.ctx); err != nil {
			return 0 // woken
		}
		s.armed = false
		if n = s.cq.Poll(s.wcs[:]); n > 0 {
			return n
		}
	}
	return 0
}

// verify compares the received data with the sent data. n is the number of messages of all queue
// pairs together.
func (s *side) verify(n uint64) error {
	var err error
	s.dst.Do(func(b []byte) { err = s.verifyBytes(b, n) })
	return err
}

func (s *side) verifyBytes(b []byte, n uint64) error {
	if s.Op.atomic() {
		var sum uint64
		for i := range s.QPs {
			sum += binary.NativeEndian.Uint64(b[i*s.room():])
		}
		if sum != n {
			return fmt.Errorf("wrong data: %d atomic operations left a sum of %d", n, sum)
		}
		return nil
	}
	size := s.Size
	if s.Op == Write && s.Mode == Latency {
		size-- // the last byte counts round trips
	}
	for i := range s.QPs {
		for j, got := range b[i*s.room()+s.head():][:size] {
			if want := pattern(i*s.room() + j); got != want {
				return fmt.Errorf("wrong data: byte %d of queue pair %d is %#02x, not %#02x", j, i, got, want)
			}
		}
	}
	return nil
}

// checkWC converts a failed completion to an error.
func checkWC(wc *verbs.WC) error {
	if wc.Status == verbs.StatusSuccess {
		return nil
	}
	return fmt.Errorf("queue pair %d: %w", wc.QPN, wc.Err())
}

// watchdog fails the side if nothing makes progress for too long.
func (s *side) watchdog(ctx context.Context) {
	t := time.NewTicker(stallTimeout)
	defer t.Stop()
	for seen := s.progress.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := s.progress.Load()
		if now == seen {
			s.fail(errStalled)
			return
		}
		seen = now
	}
}

var errPeerGone = errors.New("the other side is gone")
