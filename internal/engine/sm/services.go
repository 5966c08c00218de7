// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// service is a service record with its lease (section 15.2.5.14).
type service struct {
	record sa.ServiceRecord
	owner  uint64     // the port's GUID
	ends   clock.Time // of the lease; 0: never
}

const second = clock.Time(1e9)

// registerService adds a record, or replaces the one with the same id, GID and partition.
func (m *Manager) registerService(now clock.Time, q *query) {
	var r sa.ServiceRecord
	r.Decode(q.data)
	if q.Mask&(sa.ServiceID|sa.ServiceGID) != sa.ServiceID|sa.ServiceGID {
		m.refuse(q, sa.StatusInsufficientComponents)
		return
	}
	owner, status := m.portOf(q, r.GID)
	if status != 0 {
		m.refuse(q, status)
		return
	}
	if q.Mask&sa.ServiceLease == 0 {
		r.Lease = sa.LeaseForever
	}
	if q.Mask&sa.ServicePKey == 0 {
		r.PKey = ib.DefaultPKey
	}
	a := &m.admin
	s := &service{record: r, owner: owner.guid}
	if r.Lease != sa.LeaseForever {
		s.ends = now + clock.Time(r.Lease)*second
	}
	if i := a.findService(&r); i >= 0 {
		if a.services[i].record.Key != r.Key && !q.trusted {
			m.refuse(q, sa.StatusDenied)
			return
		}
		a.services[i] = s
	} else {
		mine := 0
		for _, o := range a.services {
			if o.owner == owner.guid {
				mine++
			}
		}
		if len(a.services) >= m.config.Limits.Services || mine >= m.config.Limits.PerPort {
			m.refuse(q, sa.StatusNoResources)
			return
		}
		a.services = append(a.services, s)
	}
	m.answerRecord(q, r.Append(nil))
}

// findService returns the index of a record with the same id, GID and partition, or -1.
func (a *admin) findService(r *sa.ServiceRecord) int {
	return slices.IndexFunc(a.services, func(s *service) bool {
		return s.record.ID == r.ID && s.record.GID == r.GID && s.record.PKey == r.PKey
	})
}

// removeService removes a record; the requester must own it and know its key.
func (m *Manager) removeService(q *query) {
	var r sa.ServiceRecord
	r.Decode(q.data)
	if q.Mask&(sa.ServiceID|sa.ServiceGID) != sa.ServiceID|sa.ServiceGID {
		m.refuse(q, sa.StatusInsufficientComponents)
		return
	}
	if q.Mask&sa.ServicePKey == 0 {
		r.PKey = ib.DefaultPKey
	}
	a := &m.admin
	i := a.findService(&r)
	switch {
	case i < 0:
		m.refuse(q, sa.StatusNoRecords)
		return
	case !q.trusted && (a.services[i].owner != q.from.guid || a.services[i].record.Key != r.Key):
		m.refuse(q, sa.StatusDenied)
		return
	}
	r = a.services[i].record
	a.services = slices.Delete(a.services, i, i+1)
	m.answerRecord(q, r.Append(nil))
}

func (a *admin) expireServices(now clock.Time) {
	a.services = slices.DeleteFunc(a.services, func(s *service) bool { return s.ends != 0 && now >= s.ends })
}

// collectServices collects service records; only trusted requesters see their keys.
func (m *Manager) collectServices(now clock.Time, t *table) {
	m.admin.expireServices(now)
	for _, s := range m.admin.services {
		r := s.record
		if s.ends != 0 {
			r.Lease = uint32((s.ends - now + second - 1) / second)
		}
		if !t.q.trusted && t.mask&sa.ServiceKey == 0 {
			r.Key = [16]byte{}
		}
		t.add(&r)
	}
}
