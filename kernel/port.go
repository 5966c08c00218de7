// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func sizeof[T any](p *T) uintptr { return unsafe.Sizeof(*p) }

func (d *device) checkPort(port int) error {
	if port < 1 || port > d.attr.Ports {
		return fail("query_port", verbs.ErrInvalid, "the device has ports 1 to "+strconv.Itoa(d.attr.Ports))
	}
	return nil
}

func (d *device) QueryPort(port int) (verbs.PortAttr, error) {
	if err := d.checkPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	if err := d.enter(); err != nil {
		return verbs.PortAttr{}, err
	}
	defer d.leave()
	return d.queryPort(port)
}

func (d *device) queryPort(port int) (verbs.PortAttr, error) {
	a := new(ibverbs.PortAttr)
	err := error(verbs.ErrNotSupported)
	if f := ibverbs.Ext(d.ctx, ibverbs.BackQueryPort); f != 0 {
		r, errno := d.lib.CallErrno(f, d.ctx, uintptr(port), uintptr(unsafe.Pointer(a)), sizeof(a))
		err = resultOf(r, errno)
	}
	if err != nil {
		r, errno := d.lib.CallErrno(d.lib.QueryPort, d.ctx, uintptr(port), uintptr(unsafe.Pointer(a)))
		if err = resultOf(r, errno); err != nil {
			return verbs.PortAttr{}, err
		}
	}
	link := verbs.LinkEthernet
	if a.LinkLayer == ibverbs.LinkLayerInfiniband {
		link = verbs.LinkInfiniBand
	}
	p := verbs.PortAttr{
		State: verbs.PortState(a.State), Link: link, NetDev: d.netDev(port), MaxMTU: verbs.MTU(a.MaxMTU),
		ActiveMTU: verbs.MTU(a.ActiveMTU),
		MaxMsg:    uint64(a.MaxMsgSz), GIDs: int(a.GIDTblLen), PKeys: int(a.PkeyTblLen), LID: a.LID, LMC: a.Lmc,
		SMLID: a.SmLID, SL: a.SmSL, SpeedMbps: speed(a.ActiveWidth, a.ActiveSpeed),
	}
	if n, err := net.InterfaceByName(p.NetDev); err == nil {
		p.LinkMTU = n.MTU
	}
	if link == verbs.LinkInfiniBand {
		p.Subnet = verbs.SubnetPort{PhysState: a.PhysState, Width: a.ActiveWidth, Speed: a.ActiveSpeed, VLs: a.MaxVlNum,
			SubnetTimeout: a.SubnetTimeout, CapMask: a.PortCapFlags}
	}
	return p, nil
}

// speed returns Mbit/s of a link; 0: unknown (IBTA 14.2.5.6).
func speed(width, lane uint8) int64 {
	lanes := map[uint8]int64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	return lanes * map[uint8]int64{1: 2500, 2: 5000, 4: 10000, 8: 10000, 16: 14000, 32: 25000, 64: 50000,
		128: 100000}[lane]
}

// sysfs returns the text of a file of the device's port in sysfs; empty: there is none.
func (d *device) sysfs(port int, name string) string {
	b, err := os.ReadFile("/sys/class/infiniband/" + d.name + "/ports/" + strconv.Itoa(port) + "/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// netDev returns the network interface of a port; empty: none. Kernels before 6.5 do not say it of iWARP, whose GID
// begins with the interface's hardware address.
func (d *device) netDev(port int) string {
	name := d.sysfs(port, "gid_attrs/ndevs/0")
	if name != "" || d.attr.Transport != verbs.TransportIWARP {
		return name
	}
	gid := new(verbs.GID)
	if r, _ := d.lib.CallErrno(d.lib.QueryGID, d.ctx, uintptr(port), 0, uintptr(unsafe.Pointer(gid))); int32(r) != 0 {
		return ""
	}
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	return ofHardware(gid, all)
}

// ofHardware returns the interface whose hardware address a GID of iWARP begins with; empty: none.
func ofHardware(gid *verbs.GID, all []net.Interface) string {
	for i := range all {
		if a := all[i].HardwareAddr; len(a) == 6 && bytes.Equal(a, gid[:6]) {
			return all[i].Name
		}
	}
	return ""
}

func (d *device) GIDs(port int) ([]verbs.GIDEntry, error) {
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	return d.gids(port)
}

func (d *device) gids(port int) ([]verbs.GIDEntry, error) {
	p, err := d.queryPort(port)
	if err != nil {
		return nil, err
	}
	if d.lib.QueryGIDTable != 0 {
		if found, err := d.gidTable(port); err == nil {
			return found, nil
		}
	}
	var found []verbs.GIDEntry
	for i := range p.GIDs {
		gid := new(verbs.GID)
		if r, _ := d.lib.CallErrno(d.lib.QueryGID, d.ctx, uintptr(port), uintptr(i),
			uintptr(unsafe.Pointer(gid))); int32(r) != 0 || *gid == (verbs.GID{}) {
			continue
		}
		e := verbs.GIDEntry{Index: i, GID: *gid, Type: verbs.GIDInfiniBand,
			NetDev: d.sysfs(port, "gid_attrs/ndevs/"+strconv.Itoa(i))}
		switch t := d.sysfs(port, "gid_attrs/types/"+strconv.Itoa(i)); {
		case d.attr.Transport == verbs.TransportIWARP:
			e.Type = verbs.GIDiWARP
		case t == "RoCE v2":
			e.Type = verbs.GIDRoCEv2
		case p.Link == verbs.LinkEthernet:
			e.Type = verbs.GIDRoCEv1
		}
		found = append(found, e)
	}
	return found, nil
}

// gidTable returns the entries of a port that are valid, in one call.
func (d *device) gidTable(port int) ([]verbs.GIDEntry, error) {
	entries := make([]ibverbs.GIDEntry, 4096)
	r, errno := d.lib.CallErrno(d.lib.QueryGIDTable, d.ctx, uintptr(unsafe.Pointer(&entries[0])), uintptr(len(entries)),
		0, sizeof(&entries[0]))
	if n := int(r); n < 0 || errno != 0 && n == 0 {
		return nil, resultOf(r, errno)
	}
	var found []verbs.GIDEntry
	for _, e := range entries[:r] {
		if int(e.PortNum) != port {
			continue
		}
		g := verbs.GIDEntry{Index: int(e.GIDIndex), GID: e.GID, Type: verbs.GIDInfiniBand}
		switch {
		case d.attr.Transport == verbs.TransportIWARP:
			g.Type = verbs.GIDiWARP
		case e.GIDType == ibverbs.GIDTypeRoceV1:
			g.Type = verbs.GIDRoCEv1
		case e.GIDType == ibverbs.GIDTypeRoceV2:
			g.Type = verbs.GIDRoCEv2
		}
		if n, err := net.InterfaceByIndex(int(e.NdevIfindex)); err == nil {
			g.NetDev = n.Name
		}
		found = append(found, g)
	}
	return found, nil
}

func (d *device) PKeys(port int) ([]verbs.PKey, error) {
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	p, err := d.queryPort(port)
	if err != nil {
		return nil, err
	}
	var keys []verbs.PKey
	for i := range p.PKeys {
		b := new([2]byte)
		r, errno := d.lib.CallErrno(d.lib.QueryPKey, d.ctx, uintptr(port), uintptr(i), uintptr(unsafe.Pointer(b)))
		if err := resultOf(r, errno); err != nil {
			return nil, err
		}
		keys = append(keys, verbs.PKey(b[0])<<8|verbs.PKey(b[1]))
	}
	return keys, nil
}
