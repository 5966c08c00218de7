// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// subscription is a subscriber, and the notices that it wants (section 13.4.8.3).
type subscription struct {
	guid uint64
	lid  uint16
	qpn  ib.QPN
	sl   uint8
	pkey ib.PKey
	info sa.InformInfo
	enum uint16
}

// Wildcards of InformInfo.
const (
	anyLID      = 0xffff
	anyType     = 0xffff
	anyTrap     = 0xffff
	anyProducer = 0xff_ffff
)

// subscribe adds or removes a subscription of the requester.
func (m *Manager) subscribe(q *query) {
	var info sa.InformInfo
	info.Decode(q.data)
	a := &m.admin
	qpn := q.d.Peer
	if info.Subscribe == 0 && info.QPN != 0 {
		qpn = info.QPN
	}
	info.QPN = qpn
	same := func(s *subscription) bool {
		i := info
		i.Subscribe, i.RespTime = s.info.Subscribe, s.info.RespTime
		return s.guid == q.from.guid && s.qpn == qpn && s.info == i
	}
	at := slices.IndexFunc(a.subs, same)
	answer := info
	switch {
	case info.Subscribe > 1 || info.Generic > 1:
		m.refuse(q, mad.StatusInvalidField)
		return
	case info.Subscribe == 0 && at < 0:
		m.refuse(q, sa.StatusInvalid)
		return
	case info.Subscribe == 0:
		a.subs = slices.Delete(a.subs, at, at+1)
	case at < 0:
		mine, enum := 0, uint16(0)
		for _, s := range a.subs {
			if s.guid == q.from.guid {
				mine++
				enum = max(enum, s.enum)
			}
		}
		if len(a.subs) >= m.config.Limits.Subscriptions || mine >= m.config.Limits.PerPort {
			m.refuse(q, sa.StatusNoResources)
			return
		}
		a.subs = append(a.subs, &subscription{guid: q.from.guid, lid: q.d.LID, qpn: qpn, sl: q.d.SL, pkey: q.d.PKey,
			info: info, enum: enum + 1})
	}
	m.answerRecord(q, answer.Append(nil))
}

// matches reports whether a subscription is for a notice.
func (s *subscription) matches(n *mad.Notice, issuer ib.GID) bool {
	i := &s.info
	switch {
	case (i.Generic != 0) != n.Generic,
		i.Type != anyType && i.Type != uint16(n.Type),
		i.Trap != anyTrap && i.Trap != uint16(n.Trap),
		i.Producer != anyProducer && i.Producer != n.Producer:
		return false
	case i.GID != ib.GID{}:
		return i.GID == issuer
	case i.LIDBegin == anyLID || i.LIDBegin == 0:
		return true
	}
	return n.Issuer >= i.LIDBegin && n.Issuer <= max(i.LIDBegin, i.LIDEnd)
}

// report queues a notice for its subscribers.
func (a *admin) report(m *Manager, now clock.Time, n *mad.Notice, issuer ib.GID) {
	for _, s := range a.subs {
		if s.matches(n, issuer) {
			a.queueReport(m, s, n, issuer)
		}
	}
}

// reportGID reports that a port or a group has appeared or vanished.
func (a *admin) reportGID(m *Manager, now clock.Time, t mad.Trap, gid ib.GID) {
	if len(a.subs) == 0 || m.fabric == nil {
		return
	}
	n := mad.Notice{Generic: true, Type: mad.NoticeSubnet, Producer: mad.ProducerClassManager, Trap: t,
		Issuer: m.fabric.own.lid}
	details := mad.GIDDetails{GID: gid}
	details.Encode(&n.Details)
	a.report(m, now, &n, m.gid(m.fabric.own))
}

func (m *Manager) collectSubscriptions(t *table) {
	for _, s := range m.admin.subs {
		if p := m.fabric.byPortGUID[s.guid]; p != nil {
			t.add(&sa.InformInfoRecord{Subscriber: m.gid(p), Enum: s.enum, Info: s.info})
		}
	}
}
