// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// administrator asks the subnet administrator (IBTA chapter 15), which is at the LID of the port's subnet
// manager.
type administrator struct {
	drv   driver.Device
	agent driver.MADAgent
	err   error // why there is no agent

	mu      sync.Mutex
	low     uint32 // lower half of the last transaction id
	waiting map[uint64]chan<- []byte
}

// repeatQuery is the time after which a query without an answer is repeated.
const repeatQuery = 500 * time.Millisecond

// newAdministrator returns a client. It receives until the agent is closed.
func newAdministrator(drv driver.Device) *administrator {
	a := &administrator{drv: drv, waiting: make(map[uint64]chan<- []byte)}
	d, ok := drv.(driver.MADDevice)
	if !ok {
		a.err = verbs.ErrNotSupported
		return a
	}
	if a.agent, a.err = d.OpenMAD(1, ib.QP1, umad.Spec{Class: sa.Class, Version: sa.ClassVersion}); a.err != nil {
		return a
	}
	var b [4]byte
	rand.Read(b[:])
	a.low = binary.NativeEndian.Uint32(b[:])
	go a.receive()
	return a
}

func (a *administrator) close() {
	if a.agent != nil {
		a.agent.Close() // which drops the datagrams in its queue
	}
}

// receive hands answers to the goroutines that wait for them.
func (a *administrator) receive() {
	for {
		b := make([]byte, mad.Size)
		if _, _, err := a.agent.Recv(context.Background(), b); err != nil {
			return
		}
		var h mad.Header
		h.Decode(b)
		a.mu.Lock()
		if to := a.waiting[h.TID]; to != nil {
			delete(a.waiting, h.TID)
			to <- b
		}
		a.mu.Unlock()
	}
}

// expect returns the transaction id of a new query, and where its answer comes.
func (a *administrator) expect() (tid uint64, answer <-chan []byte) {
	c := make(chan []byte, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.low++
	tid = uint64(a.agent.Transactions())<<32 | uint64(a.low)
	a.waiting[tid] = c
	return tid, c
}

func (a *administrator) forget(tid uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, tid)
}

// ask sends a query until it is answered, and returns the record of the answer. The error is that of the
// administrator, or of ctx.
func (a *administrator) ask(ctx context.Context, m mad.Method, attr mad.Attribute, mask uint64,
	record []byte) ([]byte, error) {
	const op = "ask_subnet_administrator"
	if a.err != nil {
		return nil, a.err
	}
	for {
		p, err := a.drv.QueryPort(1)
		if err != nil {
			return nil, err
		}
		tid, answer := a.expect()
		h := sa.NewHeader(m, attr, tid, mask)
		h.RMPP.Version = 1
		b := append(h.Append(make([]byte, 0, mad.Size)), record...)
		if p.SMLID != 0 {
			// A query that cannot be sent now is sent again, as a lost one is.
			a.agent.Send(umad.Path{AH: verbs.AHAttr{DLID: p.SMLID, SL: p.SL}}, b[:mad.Size])
		}
		again := time.NewTimer(repeatQuery)
		var got []byte
		select {
		case got = <-answer:
			if h.Decode(got); h.Status == mad.StatusBusy { // repeated as if there were no answer
				got = nil
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		a.forget(tid)
		switch {
		case got != nil:
			if h.Status != mad.StatusOK {
				return nil, opErr(op, ErrNoAddr, "%s: %s", sa.Name(attr), sa.StatusText(h.Status))
			}
			return got[sa.HeaderLen:], nil
		case ctx.Err() != nil && p.SMLID == 0:
			return nil, opErr(op, ErrTimeout, "the port has no subnet manager: its state is %v", p.State)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// route is a path through a subnet.
type route struct {
	DLID     uint16
	SL       uint8
	HopLimit uint8
	MTU      verbs.MTU
	PKey     verbs.PKey
}

// path asks for a path between two ports (section 15.2.5.16).
func (a *administrator) path(ctx context.Context, from, to verbs.GID) (route, error) {
	q := sa.PathRecord{SGID: from, DGID: to, Reversible: true, NumbPath: 1}
	b, err := a.ask(ctx, mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID|sa.PathReversible|sa.PathNumbPath,
		q.Append(nil))
	if err != nil {
		return route{}, fmt.Errorf("path to %v: %w", to, err)
	}
	var r sa.PathRecord
	r.Decode(b)
	return route{r.DLID, r.SL, r.HopLimit, verbs.MTU(r.MTU.Value), r.PKey}, nil
}

// join makes a port a full member of a group, which is made if there is none (section 15.2.5.17).
func (a *administrator) join(ctx context.Context, group, port verbs.GID, key verbs.QKey) (sa.MCMemberRecord, error) {
	q := sa.MCMemberRecord{MGID: group, PortGID: port, QKey: key, PKey: ib.DefaultPKey, Join: sa.FullMember}
	const mask = sa.MemberMGID | sa.MemberPortGID | sa.MemberQKey | sa.MemberPKey | sa.MemberTClass | sa.MemberSL |
		sa.MemberFlowLabel | sa.MemberJoinState
	b, err := a.ask(ctx, mad.MethodSet, sa.AttrMCMemberRecord, mask, q.Append(nil))
	if err != nil {
		return q, fmt.Errorf("joining %v with Q_Key %#x, for which OpenSM needs ipoib_mcgroup_creation_validation FALSE: %w", group, uint32(key), err)
	}
	q.Decode(b)
	return q, nil
}

// leave ends a membership.
func (a *administrator) leave(ctx context.Context, group, port verbs.GID) error {
	q := sa.MCMemberRecord{MGID: group, PortGID: port, Join: sa.FullMember}
	_, err := a.ask(ctx, sa.MethodDelete, sa.AttrMCMemberRecord, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState,
		q.Append(nil))
	return err
}
