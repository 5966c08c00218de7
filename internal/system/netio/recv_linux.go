// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many buffers one recvmmsg fills. Full of trains they take 512 KiB, so they stay
	// in a second-level cache of 1 MiB.
	batch = 8

	// bufferSize holds the largest train. The buffers are spaced a little further apart: at a
	// distance of a power of two their beginnings would contend for the same cache sets.
	bufferSize   = 64 << 10
	bufferStride = bufferSize + 5*64

	// controlSize holds the control messages of UDP_GRO, packet info, TTL and
	// TOS, for either family.
	controlSize = 128
)

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// receiver holds the buffers that recvmmsg fills. The kernel overwrites some lengths in the headers. They are
// restored only in the messages that it used.
type receiver struct {
	messages [batch]mmsghdr
	iovecs   [batch]unix.Iovec
	from     [batch]rawAddr
	control  [batch][controlSize]byte
	used     int
	first    int  // the port to begin with
	busy     bool // the last receive found something
}

func (r *receiver) init() {
	memory := make([]byte, batch*bufferStride)
	for i := range batch {
		r.iovecs[i].Base = &memory[i*bufferStride]
		r.iovecs[i].SetLen(bufferSize)
		h := &r.messages[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&r.from[i]))
		h.Iov = &r.iovecs[i]
		h.SetIovlen(1)
		h.Control = &r.control[i][0]
	}
	r.used = batch
	r.reset()
}

// reset restores the messages that were used.
func (r *receiver) reset() {
	for i := range r.used {
		h := &r.messages[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlSize)
	}
	r.used = 0
}

func (s *batched) recv(into []Datagrams) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := s.recvPorts(into)
	if err != nil && s.closed.Load() {
		n, err = 0, net.ErrClosed
	}
	runtime.KeepAlive(s) // its descriptors are in use until here
	return n, err
}

func (s *batched) recvPorts(into []Datagrams) (int, error) {
	if s.leaving.Load() {
		s.reap()
	}
	r := &s.rx
	if r.used > 0 {
		r.reset()
	}
	into = into[:min(len(into), batch)]
	ports := *s.ports.Load()
	if len(ports) == 1 {
		return s.recvPort(&ports[0], into)
	}
	// Begin with another port each time, so that none starves.
	r.first++
	for i := range ports {
		if r.used == len(into) {
			break
		}
		_, err := s.recvPort(&ports[(r.first+i)%len(ports)], into)
		if err != nil && r.used == 0 {
			return 0, err
		}
	}
	return r.used, nil
}

// recvPort receives into the buffers that are not yet used.
func (s *batched) recvPort(p *port, into []Datagrams) (int, error) {
	r := &s.rx
	first := r.used
	if first == len(into) {
		return 0, nil
	}
	n, errno := r.receive(p.fd, first, len(into)-first)
	if errno != 0 {
		r.busy = false
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return 0, nil
		}
		return 0, os.NewSyscallError("netio: receive: recvmsg", errno)
	}
	r.busy = true
	r.used = first + n
	for i := first; i < r.used; i++ {
		m := &r.messages[i]
		d := &into[i]
		size := int(m.len)
		*d = Datagrams{
			From:        s.zones.get(&r.from[i]),
			To:          p.to,
			Data:        unsafe.Slice(r.iovecs[i].Base, bufferSize)[:size:size],
			SegmentSize: size,
			Truncated:   m.hdr.Flags&unix.MSG_TRUNC != 0,
		}
		if m.hdr.Controllen > 0 {
			readControl(r.control[i][:min(int(m.hdr.Controllen), controlSize)], d)
		}
	}
	return n, nil
}

// receive fills some messages. After a receive that found nothing it requests only one: recvmmsg
// would look for a second one, which delays the answer to a lone packet by 0.1 µs.
func (r *receiver) receive(fd, first, count int) (int, syscall.Errno) {
	m := &r.messages[first]
	if r.busy && count > 1 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), uintptr(count),
			unix.MSG_DONTWAIT, 0, 0)
		return int(n), errno
	}
	n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
	m.len = uint32(n)
	return 1, errno
}

// readControl reads the control messages of one receive.
func readControl(b []byte, d *Datagrams) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || length > len(b) {
			return
		}
		readControlMessage(h.Level, h.Type, b[unix.SizeofCmsghdr:length], d)
		b = b[min(unix.CmsgSpace(length-unix.SizeofCmsghdr), len(b)):]
	}
}

func readControlMessage(level, kind int32, data []byte, d *Datagrams) {
	switch {
	case level == unix.IPPROTO_UDP && kind == unix.UDP_GRO && len(data) >= 4:
		if size := int(binary.NativeEndian.Uint32(data)); size > 0 && size < d.SegmentSize {
			d.SegmentSize = size
		}
	case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		info := (*unix.Inet4Pktinfo)(unsafe.Pointer(unsafe.SliceData(data)))
		d.To = netip.AddrFrom4(info.Addr)
		d.HasHeaders = true
	case level == unix.IPPROTO_IP && kind == unix.IP_TTL && len(data) >= 4:
		d.TTL = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
		d.TOS = data[0]
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(unsafe.SliceData(data)))
		// Keep the zone of the socket's own address.
		if a := netip.AddrFrom16(info.Addr); a != d.To.WithZone("") {
			d.To = a
		}
		d.HasHeaders = true
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT && len(data) >= 4:
		d.TTL = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
		d.TOS = uint8(binary.NativeEndian.Uint32(data))
	}
}
