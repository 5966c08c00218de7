// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"net/netip"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// serviceOf converts an event of a datagram service. Events of connections have other parameters in its place.
func serviceOf(e *ibverbs.CMEventUD) driver.Service {
	s := driver.Service{QPN: verbs.QPN(e.ParamUDQPNum), QKey: verbs.QKey(e.ParamUDQkey)}
	s.AH = verbs.AHAttr{DLID: e.ParamUDAHAttrDlid, SL: e.ParamUDAHAttrSL, SrcPathBits: e.ParamUDAHAttrSrcPathBits,
		Port: int(e.ParamUDAHAttrPortNum)}
	if e.ParamUDAHAttrIsGlobal != 0 {
		s.AH.DGID, s.AH.FlowLabel, s.AH.SGIDIndex = e.ParamUDAHAttrGRHDgid, e.ParamUDAHAttrGRHFlowLabel,
			int(e.ParamUDAHAttrGRHSgidIndex)
		s.AH.HopLimit, s.AH.TrafficClass = e.ParamUDAHAttrGRHHopLimit, e.ParamUDAHAttrGRHTrafficClass
	}
	return s
}

func (m *manager) ListenService(at netip.AddrPort, backlog int,
	f func(driver.StreamEvent)) (driver.StreamListener, error) {
	return m.listen(ibverbs.PSUDP, at, backlog, f)
}

func (m *manager) LookUpService(from, to netip.AddrPort, p driver.StreamParam,
	f func(driver.StreamEvent)) (driver.Stream, error) {
	s, err := m.create(ibverbs.PSUDP, f)
	if err != nil {
		return nil, err
	}
	return s.dial(from, to, p)
}

// JoinGroup joins by an id of its own: the kernel joins by the interface that an id is bound to.
func (m *manager) JoinGroup(from, group netip.Addr, f func(driver.StreamEvent)) (driver.Stream, error) {
	s, err := m.create(ibverbs.PSUDP, f)
	if err != nil {
		return nil, err
	}
	s.local = netip.AddrPortFrom(from, 0)
	to := sockaddr(netip.AddrPortFrom(group, 0))
	at := sockaddr(s.local)
	if err = s.call(m.fn.BindAddr, uintptr(unsafe.Pointer(at))); err == nil {
		err = s.rightDevice()
	}
	if err == nil {
		err = s.call(m.fn.JoinMulticast, uintptr(unsafe.Pointer(to)), 0)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return &member{s, to}, nil
}

// member is the id of a group.
type member struct {
	*stream
	group *[28]byte
}

// Close leaves the group first, which frees the library's record of it.
func (m *member) Close() {
	m.call(m.m.fn.LeaveMulticast, uintptr(unsafe.Pointer(m.group)))
	m.stream.Close()
}

// serviceStream is a request for a datagram service.
type serviceStream struct{ *stream }

func (s *serviceStream) AcceptService(qpn verbs.QPN, private []byte) error {
	if err := dataFits(private); err != nil {
		return err
	}
	s.mu.Lock()
	if s.gone || !s.asked {
		s.mu.Unlock()
		return verbs.ErrState
	}
	s.asked, s.qpn, s.param, s.tell = false, qpn, driver.StreamParam{PrivateData: private}, nil
	s.mu.Unlock()
	return s.pass(s.m.fn.Accept)
}
