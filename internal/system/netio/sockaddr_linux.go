// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// zones maps IPv6 zones to interface indices and back, and caches them, because the system is slow
// to answer. The zero value is ready for use.
type zones struct {
	mu     sync.Mutex
	byName map[string]uint32
	byID   map[uint32]string
}

// id returns the interface index of a zone, 0 for none.
func (z *zones) id(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if id, ok := z.byName[name]; ok {
		return id, nil
	}
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		ifi, err := net.InterfaceByName(name)
		if err != nil {
			return 0, fmt.Errorf("zone %q: %w", name, err)
		}
		id = uint64(ifi.Index)
	}
	if z.byName == nil {
		z.byName = make(map[string]uint32)
	}
	z.byName[name] = uint32(id)
	return uint32(id), nil
}

// name returns the zone of an interface index.
func (z *zones) name(id uint32) string {
	z.mu.Lock()
	defer z.mu.Unlock()
	if name, ok := z.byID[id]; ok {
		return name
	}
	name := strconv.Itoa(int(id))
	if ifi, err := net.InterfaceByIndex(int(id)); err == nil {
		name = ifi.Name
	}
	if z.byID == nil {
		z.byID = make(map[uint32]string)
	}
	z.byID[id] = name
	return name
}

// sockaddr converts an address for calls that need not be fast.
func (z *zones) sockaddr(a netip.AddrPort) (unix.Sockaddr, error) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	id, err := z.id(a.Addr().Zone())
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), ZoneId: id, Addr: a.Addr().As16()}, nil
}

func portOf(sa unix.Sockaddr) uint16 {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port)
	case *unix.SockaddrInet6:
		return uint16(sa.Port)
	}
	return 0
}

// rawAddr has room for both families: their first two fields are the same.
type rawAddr = unix.RawSockaddrInet6

// put writes an address in the kernel's format and returns its length.
func (z *zones) put(raw *rawAddr, a netip.AddrPort) (uint32, error) {
	addr := a.Addr()
	putPort(raw, a.Port())
	if addr.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(raw))
		v4.Family = unix.AF_INET
		v4.Addr = addr.As4()
		return unix.SizeofSockaddrInet4, nil
	}
	raw.Family = unix.AF_INET6
	raw.Flowinfo = 0
	raw.Addr = addr.As16()
	raw.Scope_id = 0
	if zone := addr.Zone(); zone != "" {
		id, err := z.id(zone)
		if err != nil {
			return 0, err
		}
		raw.Scope_id = id
	}
	return unix.SizeofSockaddrInet6, nil
}

// get reads an address in the kernel's format.
func (z *zones) get(raw *rawAddr) netip.AddrPort {
	switch raw.Family {
	case unix.AF_INET:
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(raw))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), getPort(raw))
	case unix.AF_INET6:
		addr := netip.AddrFrom16(raw.Addr).Unmap()
		if raw.Scope_id != 0 && addr.Is6() {
			addr = addr.WithZone(z.name(raw.Scope_id))
		}
		return netip.AddrPortFrom(addr, getPort(raw))
	}
	return netip.AddrPort{}
}

func putPort(raw *rawAddr, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&raw.Port))[:], port)
}

func getPort(raw *rawAddr) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&raw.Port))[:])
}
