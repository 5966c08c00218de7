// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// cmEvent is an event of the connection manager, copied from C.
type cmEvent struct {
	id, listener uintptr
	typ          ibverbs.CMEventType
	status       int32
	param        driver.StreamParam
	service      driver.Service
}

// reader returns the function that takes one event, acknowledges it, so that ids can be destroyed, and deals with it.
func (m *manager) reader() func() (bool, error) {
	at := new(uint64)
	return func() (bool, error) {
		r, errno := m.dev.lib.CallErrno(m.fn.GetEvent, m.c, uintptr(unsafe.Pointer(at)))
		if int32(r) != 0 {
			return again(errno)
		}
		c := ibverbs.Pointer[ibverbs.CMEvent](uintptr(*at))
		e := cmEvent{id: uintptr(c.ID), listener: uintptr(c.ListenID), typ: c.Event, status: int32(c.Status)}
		e.param = driver.StreamParam{IRD: uint16(c.ParamConnResponderResources), ORD: uint16(c.ParamConnInitiatorDepth)}
		if n := int(c.ParamConnPrivateDataLen); n > 0 && c.ParamConnPrivateData != 0 && withData(c.Event) {
			e.param.PrivateData = append([]byte(nil),
				unsafe.Slice(ibverbs.Pointer[byte](uintptr(c.ParamConnPrivateData)), n)...)
		}
		e.service = serviceOf(ibverbs.Pointer[ibverbs.CMEventUD](uintptr(*at)))
		var s *stream
		request := e.typ == ibverbs.CMConnectRequest
		if request {
			s = m.request(&e)
		} else {
			m.mu.Lock()
			s = m.ids[e.id]
			m.mu.Unlock()
		}
		m.dev.lib.CallErrno(m.fn.AckEvent, uintptr(*at))
		switch {
		case s != nil:
			s.happened(&e)
		case request: // its id is new, and nobody else's
			m.dev.lib.CallErrno(m.fn.DestroyID, e.id)
		}
		return true, nil
	}
}

// withData reports whether events of a type have parameters of a peer.
func withData(typ ibverbs.CMEventType) bool {
	switch typ {
	case ibverbs.CMConnectRequest, ibverbs.CMConnectResponse, ibverbs.CMEstablished, ibverbs.CMRejected:
		return true
	}
	return false
}

// request returns the stream of a request, whose id is new; nil: nobody listens any more.
func (m *manager) request(e *cmEvent) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ids[e.listener]
	if l == nil || m.closed {
		return nil
	}
	s := &stream{m: m, c: e.id, asked: true, tell: l.tell, service: l.service, local: addrOf(e.id + ibverbs.IDSource),
		peer: addrOf(e.id + ibverbs.IDDestination)}
	m.ids[s.c] = s
	return s
}

// happened deals with an event, in the goroutine that reads them.
func (s *stream) happened(e *cmEvent) {
	switch e.typ {
	case ibverbs.CMConnectRequest:
		if err := s.rightDevice(); err != nil {
			s.Close()
			return
		}
		var stream driver.Stream = s
		if s.service {
			stream = &serviceStream{s}
		}
		s.report(driver.StreamEvent{Type: driver.StreamRequested, Stream: stream, Param: e.param})
	case ibverbs.CMAddrResolved:
		err := s.rightDevice()
		if err == nil {
			err = s.call(s.m.fn.ResolveRoute, resolving)
		}
		s.failedIf(err)
	case ibverbs.CMRouteResolved:
		err := dataFits(s.param.PrivateData)
		if err == nil {
			err = s.pass(s.m.fn.Connect)
		}
		s.failedIf(err)
	case ibverbs.CMConnectResponse: // over InfiniBand and RoCE: the queue pair is the driver's
		err := s.raise(verbs.StateRTR, verbs.StateRTS)
		if err == nil {
			err = s.call(s.m.fn.Establish)
		}
		if s.failedIf(err); err == nil {
			s.isEstablished(e)
		}
	case ibverbs.CMEstablished, ibverbs.CMMulticastJoin:
		s.isEstablished(e)
	case ibverbs.CMMulticastError:
		s.failedIf(e.reason())
	case ibverbs.CMRejected:
		if e.status == consumerReject || e.status == -int32(syscall.ECONNREFUSED) && len(e.param.PrivateData) > 0 {
			s.report(driver.StreamEvent{Type: driver.StreamRejected, Stream: s, Param: e.param})
			return
		}
		s.failedIf(syscall.ECONNREFUSED)
	case ibverbs.CMAddrError, ibverbs.CMRouteError, ibverbs.CMUnreachable, ibverbs.CMConnectError:
		if s.service && e.typ == ibverbs.CMUnreachable && e.status > 0 { // the fields of SIDR REP
			s.report(driver.StreamEvent{Type: driver.StreamRejected, Stream: s, Param: e.param,
				Service: driver.Service{Status: uint8(e.status)}})
			return
		}
		s.failedIf(e.reason())
	case ibverbs.CMDisconnected, ibverbs.CMDeviceRemoval:
		s.call(s.m.fn.Disconnect) // answers the peer; fails if we were first
		s.report(driver.StreamEvent{Type: driver.StreamClosed, Stream: s})
		// the kernel tells of time wait over InfiniBand and RoCE only
		if s.m.dev.attr.Transport == verbs.TransportIWARP {
			s.report(driver.StreamEvent{Type: driver.StreamReleased, Stream: s})
		}
	case ibverbs.CMTimewaitExit:
		s.report(driver.StreamEvent{Type: driver.StreamReleased, Stream: s})
	}
}

// consumerReject is the reason of a rejection by the peer's program (IBTA 12.6.7.2).
const consumerReject = 28

// reason returns why an attempt failed.
func (e *cmEvent) reason() error {
	switch {
	case e.status < 0:
		return syscall.Errno(-e.status)
	case e.typ == ibverbs.CMUnreachable:
		return syscall.ETIMEDOUT
	}
	return fmt.Errorf("the kernel's connection manager says %d", e.status)
}

func (s *stream) isEstablished(e *cmEvent) {
	s.mu.Lock()
	before := s.established
	s.established = true
	s.mu.Unlock()
	if !before {
		s.report(driver.StreamEvent{Type: driver.StreamEstablished, Stream: s, Param: e.param, Service: e.service})
	}
}

// failedIf reports that a connection failed.
func (s *stream) failedIf(err error) {
	if err != nil {
		s.report(driver.StreamEvent{Type: driver.StreamFailed, Stream: s, Err: err})
	}
}

// report calls back without a lock.
func (s *stream) report(e driver.StreamEvent) {
	s.mu.Lock()
	tell := s.tell
	s.mu.Unlock()
	if tell != nil {
		tell(e)
	}
}

// rightDevice refuses a connection whose addresses have led the kernel to another device.
func (s *stream) rightDevice() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return verbs.ErrClosed
	}
	ctx := *ibverbs.Pointer[uintptr](s.c + ibverbs.IDVerbs)
	if ctx == 0 {
		return nil
	}
	if name := ibverbs.Text(*ibverbs.Pointer[uintptr](ctx)+ibverbs.DeviceName, 64); name != s.m.dev.name {
		return fmt.Errorf("%w: the kernel would use the device %s for these addresses: open that one",
			syscall.EADDRNOTAVAIL, name)
	}
	return nil
}
