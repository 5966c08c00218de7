// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Connections chooses streams: the kernel owns QP1, and its connection manager has addresses and ports as they
// have, over every protocol.
func (d *device) Connections(p driver.Protocols) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.cmMu.Lock()
	defer d.cmMu.Unlock()
	if d.cm == nil {
		m, err := startManager(d)
		if err != nil {
			return err
		}
		d.cm = m
	}
	return p.Streams(d.cm)
}

// Addrs returns the IP addresses of a port's interface: iWARP's GIDs are made of hardware addresses.
func (d *device) Addrs(port int) (addrs []netip.Addr) {
	if d.enter() != nil {
		return nil
	}
	defer d.leave()
	i, err := net.InterfaceByName(d.netDev(port))
	if err != nil {
		return nil
	}
	nets, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs
}

// resolving bounds each step of finding the way to an address, in milliseconds.
const resolving = 4000

// manager is the device's part of the kernel's connection manager (rdma_cm(7)).
type manager struct {
	dev    *device
	fn     *ibverbs.Manager
	c      uintptr // struct rdma_event_channel
	events channel
	done   chan struct{}

	mu     sync.Mutex
	closed bool
	ids    map[uintptr]*stream // by struct rdma_cm_id
}

func startManager(d *device) (*manager, error) {
	fn, err := d.lib.LoadManager()
	if err != nil {
		return nil, err
	}
	c, errno := d.lib.CallErrno(fn.CreateEventChannel)
	if c == 0 {
		switch errno = realErrno(errno, "/dev/infiniband/rdma_cm"); errno {
		case syscall.EACCES, syscall.EPERM:
			return nil, fmt.Errorf("%w: the process must be allowed to read and write /dev/infiniband/rdma_cm, also by the cgroup of its container (--device)", errno)
		case syscall.ENOENT, syscall.ENODEV:
			return nil, fmt.Errorf("%w: /dev/infiniband/rdma_cm is not there: `modprobe rdma_ucm`, and give it to a container with --device", errno)
		}
		return nil, fmt.Errorf("rdma_create_event_channel: %w", errno)
	}
	m := &manager{dev: d, fn: fn, c: c, done: make(chan struct{}), ids: map[uintptr]*stream{}}
	if err := m.events.open(int(*ibverbs.Pointer[int32](c)), "connections of "+d.name, m.reader(),
		func() {}); err != nil {
		d.lib.CallErrno(fn.DestroyEventChannel, c)
		return nil, err
	}
	return m, nil
}

// close destroys all ids, which ends their connections.
func (m *manager) close() {
	m.mu.Lock()
	m.closed = true
	ids := m.ids
	m.ids = map[uintptr]*stream{}
	m.mu.Unlock()
	close(m.done)
	for _, s := range ids {
		s.end()
	}
	m.events.close()
	m.dev.lib.CallErrno(m.fn.DestroyEventChannel, m.c)
}

func (m *manager) StreamsDone() <-chan struct{} { return m.done }

// stream is an id: a connection, one that is asked for, or a listener.
type stream struct {
	m *manager
	c uintptr // struct rdma_cm_id

	mu          sync.Mutex
	gone        bool
	established bool
	asked       bool // the peer has asked, and nobody has answered
	service     bool // of datagrams, or a group
	qp          *qp  // of a service: nil
	qpn         verbs.QPN
	tell        func(driver.StreamEvent)
	param       driver.StreamParam // ours
	local, peer netip.AddrPort
}

// create makes an id in a port space.
func (m *manager) create(space uintptr, tell func(driver.StreamEvent)) (*stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, verbs.ErrClosed
	}
	at := new(uint64)
	r, errno := m.dev.lib.CallErrno(m.fn.CreateID, m.c, uintptr(unsafe.Pointer(at)), 0, space)
	if err := systemError(r, errno); err != nil {
		return nil, err
	}
	s := &stream{m: m, c: uintptr(*at), tell: tell, service: space == ibverbs.PSUDP}
	m.ids[s.c] = s
	return s, nil
}

// systemError returns the errno itself, by which package cm tells reasons apart.
func systemError(r uintptr, errno syscall.Errno) error {
	if int32(r) == 0 {
		return nil
	}
	if errno == 0 {
		errno = syscall.EIO
	}
	return errno
}

// call calls a function for the id, unless it is gone. Pointers are passed as to ibverbs.Call.
//
//go:uintptrescapes
func (s *stream) call(fn uintptr, args ...uintptr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return verbs.ErrClosed
	}
	r, errno := s.m.dev.lib.CallErrno(fn, append([]uintptr{s.c}, args...)...)
	return systemError(r, errno)
}

// sockaddr returns an address as C has it. The result is kept alive by the caller.
func sockaddr(a netip.AddrPort) *[28]byte {
	b := new([28]byte)
	ip := a.Addr().Unmap()
	if ip.Is4() {
		binary.NativeEndian.PutUint16(b[0:], syscall.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		v := ip.As4()
		copy(b[4:], v[:])
		return b
	}
	binary.NativeEndian.PutUint16(b[0:], syscall.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	v := ip.As16()
	copy(b[8:], v[:])
	if i, err := net.InterfaceByName(ip.Zone()); err == nil {
		binary.NativeEndian.PutUint32(b[24:], uint32(i.Index))
	}
	return b
}

// addrOf returns an address that C has.
func addrOf(at uintptr) netip.AddrPort {
	b := *ibverbs.Pointer[[28]byte](at)
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b[0:]) {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case syscall.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
	}
	return netip.AddrPort{}
}

func (m *manager) ListenStream(at netip.AddrPort, backlog int,
	f func(driver.StreamEvent)) (driver.StreamListener, error) {
	return m.listen(ibverbs.PSTCP, at, backlog, f)
}

func (m *manager) listen(space uintptr, at netip.AddrPort, backlog int,
	f func(driver.StreamEvent)) (driver.StreamListener, error) {
	s, err := m.create(space, f)
	if err != nil {
		return nil, err
	}
	a := sockaddr(at)
	err = s.call(m.fn.BindAddr, uintptr(unsafe.Pointer(a)))
	if err == nil {
		err = s.call(m.fn.Listen, uintptr(backlog))
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.local = addrOf(s.c + ibverbs.IDSource)
	return &listener{s}, nil
}

type listener struct{ s *stream }

func (l *listener) Addr() netip.AddrPort { return l.s.local }

func (l *listener) Close() error {
	l.s.Close()
	return nil
}

var errNeedsQP = errors.New("the kernel's connection manager connects queue pairs")

func (m *manager) DialStream(driver driver.QP, from, to netip.AddrPort, p driver.StreamParam,
	f func(driver.StreamEvent)) (driver.Stream, error) {
	q, ok := driver.(*qp)
	if !ok {
		return nil, fmt.Errorf("%w: %w", verbs.ErrNotSupported, errNeedsQP)
	}
	s, err := m.create(ibverbs.PSTCP, f)
	if err != nil {
		return nil, err
	}
	s.qp, s.qpn = q, q.num
	return s.dial(from, to, p)
}

// dial begins to find the way to an address. The rest is done as events come.
func (s *stream) dial(from, to netip.AddrPort, p driver.StreamParam) (driver.Stream, error) {
	m := s.m
	s.param, s.local, s.peer = p, from, to
	if p.TOS != 0 {
		tos := new(byte)
		*tos = p.TOS
		s.call(m.fn.SetOption, ibverbs.OptionID, ibverbs.OptionIDTOS, uintptr(unsafe.Pointer(tos)), 1)
	}
	a := [2]*[28]byte{sockaddr(from), sockaddr(to)}
	if err := s.call(m.fn.ResolveAddr, uintptr(unsafe.Pointer(a[0])), uintptr(unsafe.Pointer(a[1])),
		resolving); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// parameters are struct rdma_conn_param and the private data that it names.
type parameters struct {
	c    ibverbs.ConnParam
	data [255]byte
}

// parameters lays out ours. They fit.
func (s *stream) parameters() *parameters {
	p := &parameters{c: ibverbs.ConnParam{ResponderResources: uint8(min(s.param.IRD, 255)),
		InitiatorDepth: uint8(min(s.param.ORD, 255)),
		RetryCount:     mostRetries, RNRRetryCount: 7, QPNum: uint32(s.qpn)}}
	p.c.PrivateDataLen = uint8(copy(p.data[:], s.param.PrivateData))
	if s.qp != nil && s.qp.shared {
		p.c.SRQ = 1
	}
	return p
}

// pass calls a function with parameters.
func (s *stream) pass(fn uintptr) error {
	p := s.parameters()
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(p) // it has its own address
	p.c.PrivateData = addressOf(&p.data[0])
	return s.call(fn, uintptr(unsafe.Pointer(p)))
}

// dataFits refuses private data whose length the message has no room to say.
func dataFits(data []byte) error {
	if len(data) > 255 {
		return fail("connect", verbs.ErrInvalid, limit("bytes of private data", len(data), 255))
	}
	return nil
}

// mostRetries is how often a connection retransmits a packet that is not acknowledged. rxe takes 7 for ever: with it,
// nobody would learn that the peer is dead.
const mostRetries = 6

// raise takes the queue pair to states, with the attributes that the manager knows.
func (s *stream) raise(states ...verbs.QPState) error {
	if s.m.dev.attr.Transport == verbs.TransportIWARP {
		return nil // the kernel does it
	}
	d := s.m.dev
	for _, state := range states {
		a, mask := &ibverbs.QPAttr{QPState: ibverbs.QPState(state)}, new(int32)
		if err := s.call(s.m.fn.InitQPAttr, uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(mask))); err != nil {
			return err
		}
		if state == verbs.StateRTR {
			a.MaxDestRDAtomic = uint8(min(int(a.MaxDestRDAtomic), d.attr.MaxQPRdAtomic))
		}
		a.RetryCnt = min(a.RetryCnt, mostRetries) // the peer's, where it asked
		if err := s.qp.modifyC(a, verbs.QPMask(*mask), state); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) Accept(driver driver.QP, p driver.StreamParam, f func(driver.StreamEvent)) error {
	q, ok := driver.(*qp)
	if !ok {
		return fmt.Errorf("%w: %w", verbs.ErrNotSupported, errNeedsQP)
	}
	if err := dataFits(p.PrivateData); err != nil {
		return err
	}
	s.mu.Lock()
	if s.gone || !s.asked {
		s.mu.Unlock()
		return verbs.ErrState
	}
	s.asked, s.qp, s.qpn, s.param, s.tell = false, q, q.num, p, f
	s.mu.Unlock()
	if q.Query().State == verbs.StateInit {
		if err := s.raise(verbs.StateRTR, verbs.StateRTS); err != nil {
			return err
		}
	}
	return s.pass(s.m.fn.Accept)
}

func (s *stream) Reject(private []byte) error {
	if err := dataFits(private); err != nil {
		return err
	}
	s.mu.Lock()
	s.asked = false
	s.mu.Unlock()
	b := append([]byte{}, private...)
	var at uintptr
	if len(b) > 0 {
		at = uintptr(unsafe.Pointer(&b[0]))
	}
	return s.call(s.m.fn.Reject, at, uintptr(len(b)))
}

func (s *stream) Disconnect() { s.call(s.m.fn.Disconnect) }

// Close destroys the id. A request that nobody has answered is rejected by that.
func (s *stream) Close() {
	m := s.m
	m.mu.Lock()
	here := m.ids[s.c] == s
	if here {
		delete(m.ids, s.c)
	}
	m.mu.Unlock()
	if here {
		s.end()
	}
}

// end destroys the id, once: the caller has taken it out of the manager's table. Calls that are under way are
// waited for.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.tell = true, nil
	s.m.dev.lib.CallErrno(s.m.fn.DestroyID, s.c)
}

func (s *stream) LocalAddr() netip.AddrPort { return s.local }
func (s *stream) PeerAddr() netip.AddrPort  { return s.peer }
