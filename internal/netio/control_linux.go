// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendControl is the control messages of one send: the segment size that makes a train of
// it (UDP_SEGMENT, Linux 4.18), and what its IP headers have. Each takes four bytes of data
// or less.
type sendControl struct {
	memory [9]uint64 // three messages; aligned for them
	used   int       // bytes
}

// add appends a message with the low size bytes of v, 2 or 4.
func (c *sendControl) add(level, kind int32, size int, v uint32) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&c.memory)), int(unsafe.Sizeof(c.memory)))[c.used:]
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(size))
	data := b[unix.CmsgLen(0):]
	if size == 2 {
		binary.NativeEndian.PutUint16(data, uint16(v))
	} else {
		binary.NativeEndian.PutUint32(data, v)
	}
	c.used += unix.CmsgSpace(size)
}

// mark adds what a train's IP headers have that is not the socket's default.
func (s *batched) mark(c *sendControl, t *Train) {
	if t.ttl != 0 && (int(t.ttl) != s.ttl || t.to.Addr().IsMulticast()) {
		if s.local.Addr().Is4() {
			c.add(unix.IPPROTO_IP, unix.IP_TTL, 4, uint32(t.ttl))
		} else {
			c.add(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, 4, uint32(t.ttl))
		}
	}
	if t.tos != 0 {
		if s.local.Addr().Is4() {
			c.add(unix.IPPROTO_IP, unix.IP_TOS, 4, uint32(t.tos))
		} else {
			c.add(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 4, uint32(t.tos))
		}
	}
}

// defaultTTL asks for the time to live that packets of a socket have; 0: unknown.
func defaultTTL(fd int, ipv4 bool) int {
	level, option := unix.IPPROTO_IP, unix.IP_TTL
	if !ipv4 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	n, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return n
}
