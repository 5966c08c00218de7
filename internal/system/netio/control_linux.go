// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendControl is the control messages of one send: the segment size that makes it a train
// (UDP_SEGMENT, Linux 4.18), and fields of its IP headers. Each takes at most four bytes of data.
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

// marks are the default IP header fields of a socket's packets.
type marks struct {
	ttl int // 0: unknown
	tos uint8
}

// mark adds a train's IP header fields that differ from a socket's own, one of s.
func (s *batched) mark(c *sendControl, t *Train, own marks) {
	ttl := int(t.ttl)
	if ttl == 0 {
		ttl = s.marks.ttl
	}
	if ttl != own.ttl || t.ttl != 0 && t.to.Addr().IsMulticast() {
		if s.local.Addr().Is4() {
			c.add(unix.IPPROTO_IP, unix.IP_TTL, 4, uint32(ttl))
		} else {
			c.add(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, 4, uint32(ttl))
		}
	}
	if t.tos != own.tos {
		if s.local.Addr().Is4() {
			c.add(unix.IPPROTO_IP, unix.IP_TOS, 4, uint32(t.tos))
		} else {
			c.add(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 4, uint32(t.tos))
		}
	}
}

// set makes marks the defaults of a new socket, as far as the system allows, and returns the
// resulting defaults. Zeros keep the system's default, which is in has.
func (m marks) set(fd int, ipv4 bool, has marks) marks {
	level, ttl, tos := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	if !ipv4 {
		level, ttl, tos = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	}
	// If the default were unknown, a train could not ask for it.
	if m.ttl != 0 && has.ttl != 0 && unix.SetsockoptInt(fd, level, ttl, m.ttl) == nil {
		has.ttl = m.ttl
	}
	if m.tos != 0 && unix.SetsockoptInt(fd, level, tos, int(m.tos)) == nil {
		has.tos = m.tos
	}
	return has
}

// defaultTTL returns the default time to live of a socket's packets; 0: unknown.
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
