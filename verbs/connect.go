// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	crand "crypto/rand"
	"encoding/binary"
)

// Endpoint holds the parameters that two queue pairs exchange to be connected. Programs exchange
// endpoints by any means; package cm does so on the wire.
type Endpoint struct {
	QPN QPN
	PSN PSN // of the first packet that this side sends
	GID GID
	LID uint16 // on fabrics that have LIDs: sides that have one are connected by it, and not by their GIDs
	MTU MTU    // the largest path MTU that this side can use
}

// ConnectOptions tune [QP.Connect]. Zero values stand for the defaults that are named. A program
// that wants no retries or no timeout at all uses [QP.Modify]. A silent peer is given up after 1 +
// RetryCount timeouts, each of which may take up to four times its value (IBTA 9.7.6.1.3). With the
// defaults, Ramjet's devices do so after 2.1 s.
type ConnectOptions struct {
	SGIDIndex   int
	Access      Access // 0: everything that peers can be allowed
	MTU         MTU    // 0: the smaller of both sides'
	Timeout     uint8  // 0: 14, which is 67 ms
	RetryCount  uint8  // 0: 7
	RNRRetry    uint8  // 0: 7, forever
	MinRNRTimer uint8  // 0: 12, which is 0.64 ms
	RdAtomic    uint8  // READs and atomics in flight each way; 0: 16
}

// Endpoint returns this side's endpoint of a connection, with a random PSN.
func (qp *QP) Endpoint(sgidIndex int) (Endpoint, error) {
	port, err := qp.dev.Port(1)
	if err != nil {
		return Endpoint{}, err
	}
	gids, err := qp.dev.GIDs(1)
	if err != nil {
		return Endpoint{}, err
	}
	for _, g := range gids {
		if g.Index == sgidIndex {
			var b [4]byte
			crand.Read(b[:])
			return Endpoint{QPN: qp.Num(), PSN: PSN(binary.BigEndian.Uint32(b[:]) & 0xffffff), GID: g.GID,
				LID: port.LID, MTU: port.ActiveMTU}, nil
		}
	}
	return Endpoint{}, opErr("query_gid", ErrNotFound, "no such row of the GID table")
}

// To returns the address vector from this endpoint to another one: by LID within an InfiniBand subnet,
// otherwise by GID.
func (ep Endpoint) To(remote Endpoint, sgidIndex int) AHAttr {
	if ep.LID != 0 && remote.LID != 0 {
		return AHAttr{DLID: remote.LID}
	}
	return AHAttr{DGID: remote.GID, SGIDIndex: sgidIndex}
}

// Connect takes an RC, UC or XRC queue pair from RESET through INIT and RTR to RTS. local is the endpoint
// that [QP.Endpoint] returned and that was sent to the peer; remote is the peer's.
func (qp *QP) Connect(local, remote Endpoint, opt *ConnectOptions) error {
	var o ConnectOptions
	if opt != nil {
		o = *opt
	}
	def := func(v *uint8, d uint8) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Timeout, 14)
	def(&o.RetryCount, 7)
	def(&o.RNRRetry, 7)
	def(&o.MinRNRTimer, 12)
	def(&o.RdAtomic, 16)
	if o.Access == 0 {
		o.Access = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | FlushGlobal | FlushPersistent
	}
	if o.MTU == 0 {
		o.MTU = min(local.MTU, remote.MTU)
	}
	attr := QPAttr{Access: o.Access, Port: 1, AH: local.To(remote, o.SGIDIndex), PathMTU: o.MTU,
		DestQPN: remote.QPN, RQPSN: remote.PSN, SQPSN: local.PSN, Timeout: o.Timeout, RetryCount: o.RetryCount,
		RNRRetry: o.RNRRetry, MinRNRTimer: o.MinRNRTimer, MaxRdAtomic: o.RdAtomic, MaxDestRdAtomic: o.RdAtomic}
	return qp.moveTo(attr, StateInit, StateRTR, StateRTS)
}

// StartUD takes a UD queue pair from RESET to RTS.
func (qp *QP) StartUD(qkey QKey) error {
	return qp.moveTo(QPAttr{Port: 1, QKey: qkey}, StateInit, StateRTR, StateRTS)
}

// moveTo goes through states, with the attributes that each step requires.
func (qp *QP) moveTo(attr QPAttr, states ...QPState) error {
	for _, s := range states {
		tr := transitions[qp.init.Type][step{qp.State(), s}]
		attr.State = s
		if err := qp.Modify(attr, MaskState|tr.required); err != nil {
			return err
		}
	}
	return nil
}
