// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Lengths of records in bytes, without padding.
const (
	PathRecordLen       = 64
	MCMemberRecordLen   = 52
	ServiceRecordLen    = 176
	InformInfoLen       = 36
	InformInfoRecordLen = 24 + InformInfoLen
)

// Selector is how a query means an MTU, a rate or a lifetime (section 15.2.5.16).
type Selector uint8

const (
	GreaterThan Selector = 0 // more than the code's value
	LessThan    Selector = 1 // less than the code's value
	Exactly     Selector = 2 // the code's value
	Best        Selector = 3 // the largest MTU or rate, the shortest lifetime
)

// Selected is a code of 6 bits under a selector.
type Selected struct {
	Selector Selector // 2 bits
	Value    uint8    // 6 bits
}

func decodeSelected(b byte) Selected { return Selected{Selector(b >> 6), b & 0x3f} }

func (s Selected) byte() byte { return byte(s.Selector)<<6 | s.Value&0x3f }

// Accepts reports whether a value satisfies a query. The best value depends on the available ones, so
// Best accepts all.
func (s Selected) Accepts(v uint8) bool {
	switch s.Selector {
	case GreaterThan:
		return v > s.Value
	case LessThan:
		return v < s.Value
	case Exactly:
		return v == s.Value
	}
	return true
}

// Bits of component masks of a PathRecord.
const (
	PathServiceIDHigh uint64 = 1 << iota
	PathServiceIDLow
	PathDGID
	PathSGID
	PathDLID
	PathSLID
	PathRawTraffic
	PathResv
	PathFlowLabel
	PathHopLimit
	PathTClass
	PathReversible
	PathNumbPath
	PathPKey
	PathQoSClass
	PathSL
	PathMTUSelector
	PathMTU
	PathRateSelector
	PathRate
	PathLifeSelector
	PathLife
)

// PathRecord is a path from a port to another one, or to a multicast group (section 15.2.5.16).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                     ServiceID (8 bytes)                       |
//	+---------------------------------------------------------------+
//	|                      DGID (16 bytes)                          |
//	+---------------------------------------------------------------+
//	|                      SGID (16 bytes)                          |
//	+-------------------------------+-------------------------------+
//	|             DLID              |             SLID              |
//	+-+-----+-----------------------+---------------+---------------+
//	|R|Resv |               FlowLabel               |   HopLimit    |
//	+-+-----+-------+-+-------------+---------------+---------------+
//	|    TClass     |V|  NumbPath   |             P_Key             |
//	+---------------+-------+-------+---+-----------+---+-----------+
//	|       QoSClass        |  SL   |Sel|    MTU    |Sel|   Rate    |
//	+---+-----------+-------+-------+---+-----------+---+-----------+
//	|Sel| PktLife   |  Preference   |                               |
//	+---+-----------+---------------+        Resv (6 bytes)         +
//	|                                                               |
//	+---------------------------------------------------------------+
type PathRecord struct {
	ServiceID  uint64
	DGID, SGID ib.GID
	DLID, SLID uint16
	RawTraffic bool
	Resv       uint8  // 3 bits
	FlowLabel  uint32 // 20 bits
	HopLimit   uint8
	TClass     uint8
	Reversible bool
	NumbPath   uint8 // 7 bits: how many paths a query wants at most
	PKey       ib.PKey
	QoSClass   uint16 // 12 bits
	SL         uint8  // 4 bits
	MTU        Selected
	Rate       Selected
	Life       Selected // 4.096 µs × 2^value
	Preference uint8    // 0 is the most preferred
	Resv58     [6]byte
}

// Decode reads the record in b. It returns false if b is shorter than PathRecordLen.
func (r *PathRecord) Decode(b []byte) bool {
	if len(b) < PathRecordLen {
		return false
	}
	be := binary.BigEndian
	r.ServiceID = be.Uint64(b)
	r.DGID, r.SGID = ib.GID(b[8:]), ib.GID(b[24:])
	r.DLID, r.SLID = be.Uint16(b[40:]), be.Uint16(b[42:])
	w := be.Uint32(b[44:])
	r.RawTraffic, r.Resv, r.FlowLabel, r.HopLimit = w>>31 != 0, uint8(w>>28)&7, w>>8&0xf_ffff, uint8(w)
	r.TClass, r.Reversible, r.NumbPath = b[48], b[49]&0x80 != 0, b[49]&0x7f
	r.PKey = ib.PKey(be.Uint16(b[50:]))
	q := be.Uint16(b[52:])
	r.QoSClass, r.SL = q>>4, uint8(q)&0xf
	r.MTU, r.Rate, r.Life, r.Preference = decodeSelected(b[54]), decodeSelected(b[55]), decodeSelected(b[56]), b[57]
	r.Resv58 = [6]byte(b[58:])
	return true
}

// Append appends the record to b.
func (r *PathRecord) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, r.ServiceID)
	b = append(append(b, r.DGID[:]...), r.SGID[:]...)
	b = be.AppendUint16(be.AppendUint16(b, r.DLID), r.SLID)
	b = be.AppendUint32(b, uint32(bit(r.RawTraffic, 7))<<24|uint32(r.Resv&7)<<28|r.FlowLabel&0xf_ffff<<8|
		uint32(r.HopLimit))
	b = append(b, r.TClass, bit(r.Reversible, 7)|r.NumbPath&0x7f)
	b = be.AppendUint16(b, uint16(r.PKey))
	b = be.AppendUint16(b, r.QoSClass<<4|uint16(r.SL&0xf))
	b = append(b, r.MTU.byte(), r.Rate.byte(), r.Life.byte(), r.Preference)
	return append(b, r.Resv58[:]...)
}

// bit returns a byte with bit n set if on.
func bit(on bool, n int) byte {
	if on {
		return 1 << n
	}
	return 0
}

// Bits of component masks of an MCMemberRecord.
const (
	MemberMGID uint64 = 1 << iota
	MemberPortGID
	MemberQKey
	MemberMLID
	MemberMTUSelector
	MemberMTU
	MemberTClass
	MemberPKey
	MemberRateSelector
	MemberRate
	MemberLifeSelector
	MemberLife
	MemberSL
	MemberFlowLabel
	MemberHopLimit
	MemberScope
	MemberJoinState
	MemberProxyJoin
)

// JoinState is how a port belongs to a multicast group: a set (section 15.2.5.17).
type JoinState uint8

const (
	FullMember         JoinState = 1 << 0 // the group lasts while it has one
	NonMember          JoinState = 1 << 1 // gets the group's packets; does not keep the group alive
	SendOnlyNonMember  JoinState = 1 << 2 // only sends; does not keep the group alive
	SendOnlyFullMember JoinState = 1 << 3 // only sends; keeps the group alive
)

// MCMemberRecord is a multicast group, or a port's membership of one (section 15.2.5.17).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                      MGID (16 bytes)                          |
//	+---------------------------------------------------------------+
//	|                     PortGID (16 bytes)                        |
//	+---------------------------------------------------------------+
//	|                            Q_Key                              |
//	+-------------------------------+---+-----------+---------------+
//	|             MLID              |Sel|    MTU    |    TClass     |
//	+-------------------------------+---+-----------+---+-----------+
//	|             P_Key             |Sel|   Rate    |Sel| PktLife   |
//	+-------+-----------------------+---+-----------+---+-----------+
//	|  SL   |               FlowLabel               |   HopLimit    |
//	+-------+-------+-+-------------+---------------+---------------+
//	| Scope |JoinSt.|P|                   Resv                      |
//	+-------+-------+-+---------------------------------------------+
type MCMemberRecord struct {
	MGID      ib.GID
	PortGID   ib.GID
	QKey      ib.QKey
	MLID      uint16
	MTU       Selected
	TClass    uint8
	PKey      ib.PKey
	Rate      Selected
	Life      Selected
	SL        uint8  // 4 bits
	FlowLabel uint32 // 20 bits
	HopLimit  uint8
	Scope     uint8 // 4 bits
	Join      JoinState
	ProxyJoin bool
	Resv      uint32 // 23 bits
}

// Decode reads the record in b. It returns false if b is shorter than MCMemberRecordLen.
func (r *MCMemberRecord) Decode(b []byte) bool {
	if len(b) < MCMemberRecordLen {
		return false
	}
	be := binary.BigEndian
	r.MGID, r.PortGID = ib.GID(b), ib.GID(b[16:])
	r.QKey, r.MLID = ib.QKey(be.Uint32(b[32:])), be.Uint16(b[36:])
	r.MTU, r.TClass, r.PKey = decodeSelected(b[38]), b[39], ib.PKey(be.Uint16(b[40:]))
	r.Rate, r.Life = decodeSelected(b[42]), decodeSelected(b[43])
	w := be.Uint32(b[44:])
	r.SL, r.FlowLabel, r.HopLimit = uint8(w>>28), w>>8&0xf_ffff, uint8(w)
	w = be.Uint32(b[48:])
	r.Scope, r.Join, r.ProxyJoin, r.Resv = uint8(w>>28), JoinState(w>>24)&0xf, w>>23&1 != 0, w&0x7f_ffff
	return true
}

// Append appends the record to b.
func (r *MCMemberRecord) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(append(b, r.MGID[:]...), r.PortGID[:]...)
	b = be.AppendUint16(be.AppendUint32(b, uint32(r.QKey)), r.MLID)
	b = append(b, r.MTU.byte(), r.TClass)
	b = be.AppendUint16(b, uint16(r.PKey))
	b = append(b, r.Rate.byte(), r.Life.byte())
	b = be.AppendUint32(b, uint32(r.SL&0xf)<<28|r.FlowLabel&0xf_ffff<<8|uint32(r.HopLimit))
	return be.AppendUint32(b, uint32(r.Scope&0xf)<<28|uint32(r.Join&0xf)<<24|uint32(bit(r.ProxyJoin, 7))<<16|
		r.Resv&0x7f_ffff)
}

// Bits of component masks of a ServiceRecord; the bits of its data follow.
const (
	ServiceID uint64 = 1 << iota
	ServiceGID
	ServicePKey
	ServiceResv
	ServiceLease
	ServiceKey
	ServiceName
)

// ServiceRecord is a service that a port offers (section 15.2.5.14).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                     ServiceID (8 bytes)                       |
//	+---------------------------------------------------------------+
//	|                   ServiceGID (16 bytes)                       |
//	+-------------------------------+-------------------------------+
//	|         ServiceP_Key          |             Resv              |
//	+-------------------------------+-------------------------------+
//	|                        ServiceLease                           |
//	+---------------------------------------------------------------+
//	|                   ServiceKey (16 bytes)                       |
//	+---------------------------------------------------------------+
//	|                   ServiceName (64 bytes)                      |
//	+---------------------------------------------------------------+
//	|       ServiceData: 16 × 8, 8 × 16, 4 × 32, 2 × 64 bits        |
//	+---------------------------------------------------------------+
type ServiceRecord struct {
	ID    uint64
	GID   ib.GID
	PKey  ib.PKey
	Resv  uint16
	Lease uint32 // seconds; 0xffffffff: for ever
	Key   [16]byte
	Name  [64]byte
	Data  [64]byte
}

// LeaseForever is the lease of a service that does not expire.
const LeaseForever = 0xffff_ffff

// Decode reads the record in b. It returns false if b is shorter than ServiceRecordLen.
func (r *ServiceRecord) Decode(b []byte) bool {
	if len(b) < ServiceRecordLen {
		return false
	}
	be := binary.BigEndian
	r.ID, r.GID = be.Uint64(b), ib.GID(b[8:])
	r.PKey, r.Resv, r.Lease = ib.PKey(be.Uint16(b[24:])), be.Uint16(b[26:]), be.Uint32(b[28:])
	r.Key, r.Name, r.Data = [16]byte(b[32:]), [64]byte(b[48:]), [64]byte(b[112:])
	return true
}

// Append appends the record to b.
func (r *ServiceRecord) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(be.AppendUint64(b, r.ID), r.GID[:]...)
	b = be.AppendUint32(be.AppendUint16(be.AppendUint16(b, uint16(r.PKey)), r.Resv), r.Lease)
	b = append(b, r.Key[:]...)
	b = append(b, r.Name[:]...)
	return append(b, r.Data[:]...)
}

// InformInfo subscribes to reports of traps, or ends a subscription (section 13.4.8.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                       GID (16 bytes)                          |
//	+-------------------------------+-------------------------------+
//	|         LIDRangeBegin         |          LIDRangeEnd          |
//	+-------------------------------+---------------+---------------+
//	|             Resv              |   IsGeneric   |   Subscribe   |
//	+-------------------------------+---------------+---------------+
//	|             Type              |    Trap number or device ID   |
//	+-------------------------------+---------------+-----+---------+
//	|                      QPN                      |Resv |RespTime |
//	+---------------+-------------------------------+-----+---------+
//	|     Resv      |         Producer type or vendor's ID          |
//	+---------------+-----------------------------------------------+
type InformInfo struct {
	GID       ib.GID // the producer's; 0: LIDs say which
	LIDBegin  uint16 // 0xffff: all LIDs
	LIDEnd    uint16
	Resv      uint16
	Generic   uint8
	Subscribe uint8  // 0 ends a subscription
	Type      uint16 // of notices; 0xffff: all
	Trap      uint16 // 0xffff: all
	QPN       ib.QPN // of the subscription that ends
	Resv2     uint8  // 3 bits
	RespTime  uint8  // 5 bits
	Resv3     uint8
	Producer  uint32 // 24 bits; 0xffffff: all
}

// Decode reads the attribute in b. It returns false if b is shorter than InformInfoLen.
func (r *InformInfo) Decode(b []byte) bool {
	if len(b) < InformInfoLen {
		return false
	}
	be := binary.BigEndian
	r.GID, r.LIDBegin, r.LIDEnd, r.Resv = ib.GID(b), be.Uint16(b[16:]), be.Uint16(b[18:]), be.Uint16(b[20:])
	r.Generic, r.Subscribe, r.Type, r.Trap = b[22], b[23], be.Uint16(b[24:]), be.Uint16(b[26:])
	w := be.Uint32(b[28:])
	r.QPN, r.Resv2, r.RespTime = ib.QPN(w>>8), uint8(w>>5)&7, uint8(w)&0x1f
	w = be.Uint32(b[32:])
	r.Resv3, r.Producer = uint8(w>>24), w&0xff_ffff
	return true
}

// Append appends the attribute to b.
func (r *InformInfo) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, r.GID[:]...)
	b = be.AppendUint16(be.AppendUint16(be.AppendUint16(b, r.LIDBegin), r.LIDEnd), r.Resv)
	b = be.AppendUint16(be.AppendUint16(append(b, r.Generic, r.Subscribe), r.Type), r.Trap)
	b = be.AppendUint32(b, uint32(r.QPN)<<8|uint32(r.Resv2&7)<<5|uint32(r.RespTime&0x1f))
	return be.AppendUint32(b, uint32(r.Resv3)<<24|r.Producer&0xff_ffff)
}

// InformInfoRecord is a subscription (section 15.2.5.12).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                   SubscriberGID (16 bytes)                    |
//	+-------------------------------+-------------------------------+
//	|             Enum              |        Resv (6 bytes)         |
//	+-------------------------------+                               +
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                   InformInfo (36 bytes)                       |
//	+---------------------------------------------------------------+
type InformInfoRecord struct {
	Subscriber ib.GID
	Enum       uint16 // tells the subscriptions of one port apart
	Resv       [6]byte
	Info       InformInfo
}

// Decode reads the record in b. It returns false if b is shorter than InformInfoRecordLen.
func (r *InformInfoRecord) Decode(b []byte) bool {
	if len(b) < InformInfoRecordLen {
		return false
	}
	r.Subscriber, r.Enum, r.Resv = ib.GID(b), binary.BigEndian.Uint16(b[16:]), [6]byte(b[18:])
	return r.Info.Decode(b[24:])
}

// Append appends the record to b.
func (r *InformInfoRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, r.Subscriber[:]...), r.Enum)
	return r.Info.Append(append(b, r.Resv[:]...))
}
