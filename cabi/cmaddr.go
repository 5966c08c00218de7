// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
// #include <netinet/in.h>
import "C"

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// addrPort reads a socket address. It returns false if that is not an IP address.
func addrPort(p *C.struct_sockaddr) (netip.AddrPort, bool) {
	if p == nil {
		return netip.AddrPort{}, false
	}
	switch p.sa_family {
	case C.AF_INET:
		b := (*[8]byte)(unsafe.Pointer(p))
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])), true
	case C.AF_INET6:
		b := (*[28]byte)(unsafe.Pointer(p))
		a := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if zone := binary.NativeEndian.Uint32(b[24:]); zone != 0 && a.Is6() {
			a = a.WithZone(strconv.Itoa(int(zone)))
		}
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:])), true
	}
	return netip.AddrPort{}, false
}

// setAddr fills a struct sockaddr_storage. It does not write if the contents are already right,
// because another thread may be reading them.
func setAddr(p unsafe.Pointer, a netip.AddrPort) {
	var b [28]byte
	switch {
	case !a.Addr().IsValid():
	case a.Addr().Is4():
		binary.NativeEndian.PutUint16(b[:], C.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[4:], a.Addr().AsSlice())
	default:
		binary.NativeEndian.PutUint16(b[:], C.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[8:], a.Addr().AsSlice())
		if i, err := net.InterfaceByName(a.Addr().Zone()); err == nil {
			binary.NativeEndian.PutUint32(b[24:], uint32(i.Index))
		}
	}
	if to := (*[28]byte)(p); *to != b {
		*to = b
	}
}

// ofLink adds the device's link as the zone of a link-local address.
func ofLink(d *verbs.Device, a netip.AddrPort) netip.AddrPort {
	if !a.Addr().Is6() || !a.Addr().IsLinkLocalUnicast() {
		return a
	}
	p, err := d.Port(1)
	if err != nil {
		return a
	}
	return netip.AddrPortFrom(a.Addr().WithZone(p.NetDev), a.Port())
}

// addrOf returns the address of a listed device, if it has one.
func addrOf(d cdevices.Device) (netip.Addr, bool) {
	n, err := kinds.Parse(d.Address)
	if err != nil {
		return netip.Addr{}, false
	}
	a, ok := n.IP()
	return a.WithZone(""), ok
}

// deviceOf finds the device of an address. It returns ENODEV if there is none.
func deviceOf(addr netip.Addr) (string, error) {
	for _, d := range listedDevices() {
		if n, err := kinds.Parse(d.Address); err == nil && n.Owns(addr) {
			return d.Name, nil
		}
	}
	return "", syscall.ENODEV
}

// deviceTo finds the device on the route to an address: one on whose fabric the address is, the one from
// whose address the system would send, or else the first that could. To a wildcard, which stands for the
// device's own address, and to a multicast group, any device will do. It returns ENODEV if the system has a
// route but no device on it, otherwise the system's error.
func deviceTo(to netip.Addr) (string, error) {
	for _, d := range listedDevices() {
		if n, err := kinds.Parse(d.Address); err == nil && n.Reaches(to) {
			return d.Name, nil
		}
	}
	var from netip.Addr
	if !to.IsUnspecified() {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		switch {
		case err == nil:
			from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
			c.Close()
		case !to.Is6() || !to.IsLinkLocalUnicast() || to.Zone() != "": // without a zone, any may be on the route
			return "", err
		}
	}
	first := ""
	for _, d := range listedDevices() {
		a, ok := addrOf(d)
		if !ok || a.Is4() != to.Is4() {
			continue
		}
		if a == from {
			return d.Name, nil
		}
		if first == "" && (to.IsUnspecified() || to.IsMulticast() || a.IsLoopback() == to.IsLoopback()) {
			first = d.Name
		}
	}
	if first == "" {
		return "", syscall.ENODEV
	}
	return first, nil
}

//export rj_cm_describe
func rj_cm_describe(h C.uint64_t, out *C.struct_rj_cm_id, name *C.char) C.int {
	*name = 0
	id := cmIDs.get(uint64(h))
	if id == nil { // another thread is destroying it, and waits for this event
		return ok
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.several.IsValid() {
		setAddr(unsafe.Pointer(&out.id.route.addr.anon0), id.several)
		return ok
	}
	if len(id.ids) == 0 {
		return ok
	}
	one := id.ids[0]
	local, peer := ofLink(id.devices[0].Device, one.LocalAddr()), ofLink(id.devices[0].Device, one.PeerAddr())
	if out, valid := sliceOf(name, C.IBV_SYSFS_NAME_MAX); valid {
		text(out, id.devices[0].name)
	}
	addr := &out.id.route.addr
	setAddr(unsafe.Pointer(&addr.anon0), local)
	setAddr(unsafe.Pointer(&addr.anon1), peer)
	gids := (*C.struct_rdma_ib_addr)(unsafe.Pointer(&addr.addr))
	if local.Addr().IsValid() {
		gids.sgid = ib.GIDFromAddr(local.Addr())
	}
	gids.pkey = C.__be16(be16(uint16(ib.DefaultPKey)))
	if peer.Addr().IsValid() {
		gids.dgid = ib.GIDFromAddr(peer.Addr())
	}
	route, subnet := one.Route()
	if subnet {
		gids.sgid, gids.dgid = route.SGID, route.DGID
	}
	var path C.struct_ibv_sa_path_rec
	if subnet && route.DLID != 0 || !subnet && peer.Addr().IsValid() {
		path.sgid, path.dgid, path.pkey = gids.sgid, gids.dgid, gids.pkey
		path.reversible, path.numb_path, path.hop_limit = 1, 1, 64
		path.packet_life_time, path.packet_life_time_selector, path.mtu_selector = 16, 2, 2
		if p, err := id.devices[0].Port(1); err == nil {
			path.mtu = C.uint8_t(p.ActiveMTU)
		}
	}
	if path.numb_path != 0 && subnet {
		path.slid, path.dlid, path.sl = C.__be16(be16(route.SLID)), C.__be16(be16(route.DLID)), C.uint8_t(route.SL)
		path.mtu, path.hop_limit = C.uint8_t(route.MTU), C.uint8_t(route.HopLimit)
	}
	if out.path != path {
		out.path = path
	}
	return ok
}
