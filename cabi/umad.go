// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "umadobjects.h"
import "C"

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/madclient"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// umadPort is a port that a program has opened for management datagrams.
type umadPort struct {
	dev    *device
	num    int
	events *fdQueue[umadEvent]
	mu     sync.Mutex
	agents [maxUmadAgents]*madclient.Agent
}

// umadEvent is a datagram for the program.
type umadEvent struct {
	madclient.Event
	agent int
}

const (
	maxUmadAgents = 32
	// maxUmadEvents limits the datagrams that wait for the program.
	maxUmadEvents = 8192
)

var (
	umadMu    sync.Mutex
	umadPorts = map[int]*umadPort{} // by file descriptor
)

func umadOf(fd C.int) *umadPort {
	umadMu.Lock()
	defer umadMu.Unlock()
	return umadPorts[int(fd)]
}

//export rj_umad_open
func rj_umad_open(name *C.char, num C.int, fd *C.int) C.int {
	d, n, err := umadDevice(C.GoString(name), int(num))
	if err != nil {
		return errno(err)
	}
	q, err := newFDQueue[umadEvent]()
	if err != nil {
		d.release()
		return errno(err)
	}
	umadMu.Lock()
	umadPorts[q.fd] = &umadPort{dev: d, num: n, events: q}
	umadMu.Unlock()
	*fd = C.int(q.fd)
	return ok
}

//export rj_umad_close
func rj_umad_close(fd C.int) C.int {
	umadMu.Lock()
	p := umadPorts[int(fd)]
	delete(umadPorts, int(fd))
	umadMu.Unlock()
	if p == nil {
		return einval
	}
	p.mu.Lock()
	agents := p.agents
	p.agents = [maxUmadAgents]*madclient.Agent{}
	p.mu.Unlock()
	for _, a := range agents {
		if a != nil {
			a.Close()
		}
	}
	p.events.close()
	p.dev.release()
	return ok
}

//export rj_umad_register
func rj_umad_register(fd, class, version, rmpp C.int, methods *C.uint64_t, agent *C.int) C.int {
	p := umadOf(fd)
	if p == nil || class < 0 || class > 255 || version < 0 || version > 255 {
		return einval
	}
	spec := umad.Spec{Class: mad.Class(class), Version: uint8(version)}
	masks, _ := sliceOf(methods, 2)
	for i, word := range masks {
		for bit := range 64 {
			if m := mad.Method(64*i + bit); word>>bit&1 != 0 && !m.Answers() {
				spec.Methods = append(spec.Methods, m)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	num := slices.Index(p.agents[:], nil)
	if num < 0 {
		return C.int(syscall.ENOMEM)
	}
	a, err := madclient.Open(p.dev.Device, p.num, spec, rmpp != 0,
		func(e madclient.Event) { p.deliver(umadEvent{e, num}) })
	if err != nil {
		return errno(err)
	}
	p.agents[num] = a
	*agent = C.int(num)
	return ok
}

//export rj_umad_unregister
func rj_umad_unregister(fd, agent C.int) C.int {
	p := umadOf(fd)
	if p == nil || agent < 0 || agent >= maxUmadAgents {
		return einval
	}
	p.mu.Lock()
	a := p.agents[agent]
	p.agents[agent] = nil
	p.mu.Unlock()
	if a == nil {
		return einval
	}
	a.Close()
	p.events.remove(func(e umadEvent) bool { return e.agent == int(agent) })
	return ok
}

// deliver queues a datagram for the program; beyond the limit it is dropped.
func (p *umadPort) deliver(e umadEvent) {
	p.events.mu.Lock()
	full := len(p.events.events) >= maxUmadEvents
	p.events.mu.Unlock()
	if !full {
		p.events.push(e)
	}
}

//export rj_umad_send
func rj_umad_send(fd C.int, m *C.struct_rj_umad, length C.int) C.int {
	p := umadOf(fd)
	if p == nil || m.agent >= maxUmadAgents || length < mad.HeaderLen || length > umad.Len {
		return einval
	}
	p.mu.Lock()
	a := p.agents[m.agent]
	p.mu.Unlock()
	if a == nil {
		return einval
	}
	to, err := p.pathTo(&m.addr)
	if err != nil {
		return errno(err)
	}
	b, valid := sliceOf((*byte)(unsafe.Add(unsafe.Pointer(m), C.sizeof_struct_rj_umad)), length)
	if !valid {
		return einval
	}
	return errno(a.Send(to, b, time.Duration(m.timeout_ms)*time.Millisecond, int(m.retries)))
}

// pathTo converts an address to send to.
func (p *umadPort) pathTo(a *C.struct_rj_umad_addr) (umad.Path, error) {
	to := umad.Path{QPN: verbs.QPN(be32(uint32(a.qpn))), QKey: verbs.QKey(be32(uint32(a.qkey))),
		AH: verbs.AHAttr{DLID: be16(uint16(a.lid)), SL: uint8(a.sl), SrcPathBits: uint8(a.path_bits), Port: p.num}}
	if a.has_grh != 0 {
		to.AH.DGID = *(*verbs.GID)(unsafe.Pointer(&a.gid))
		to.AH.SGIDIndex, to.AH.HopLimit, to.AH.TrafficClass = int(a.gid_index), uint8(a.hop_limit),
			uint8(a.traffic_class)
		to.AH.FlowLabel = be32(uint32(a.flow_label))
	}
	keys, err := p.dev.PKeys(p.num)
	if err != nil {
		return to, err
	}
	if int(a.pkey_index) >= len(keys) {
		return to, syscall.EINVAL
	}
	to.PKey = keys[a.pkey_index]
	return to, nil
}

//export rj_umad_recv
func rj_umad_recv(fd C.int, m *C.struct_rj_umad, length *C.int) C.int {
	p := umadOf(fd)
	if p == nil {
		return einval
	}
	if m == nil || length == nil || *length < 0 {
		return einval
	}
	room := int(*length)
	e, found, fits := p.events.take(func(e umadEvent) bool { return len(e.Data) <= room })
	if !found {
		return C.int(syscall.EAGAIN)
	}
	*m = C.struct_rj_umad{agent: C.uint32_t(e.agent), length: C.uint32_t(C.sizeof_struct_rj_umad + len(e.Data))}
	if e.TimedOut {
		m.status = C.uint32_t(syscall.ETIMEDOUT)
	}
	p.pathOf(&m.addr, &e.Path)
	out, _ := sliceOf((*byte)(unsafe.Add(unsafe.Pointer(m), C.sizeof_struct_rj_umad)), room)
	copy(out, e.Data)
	*length = C.int(len(e.Data))
	if !fits {
		return C.int(syscall.ENOSPC)
	}
	return ok
}

// pathOf converts where a datagram came from.
func (p *umadPort) pathOf(a *C.struct_rj_umad_addr, from *umad.Path) {
	h := &from.AH
	a.qpn, a.qkey = C.uint32_t(be32(uint32(from.QPN))), C.uint32_t(be32(uint32(from.QKey)))
	a.lid, a.sl, a.path_bits = C.uint16_t(be16(h.DLID)), C.uint8_t(h.SL), C.uint8_t(h.SrcPathBits)
	if h.Global() {
		a.has_grh, a.gid_index, a.hop_limit = 1, C.uint8_t(h.SGIDIndex), C.uint8_t(h.HopLimit)
		a.traffic_class, a.flow_label = C.uint8_t(h.TrafficClass), C.uint32_t(be32(h.FlowLabel))
		*(*verbs.GID)(unsafe.Pointer(&a.gid)) = h.DGID
	}
	if keys, err := p.dev.PKeys(p.num); err == nil {
		a.pkey_index = C.uint16_t(max(0, slices.IndexFunc(keys,
			func(k ib.PKey) bool { return k.Base() == from.PKey.Base() })))
	}
}

// umadDevice opens the device that libibumad's name stands for, which it cuts off, and finds the port. An
// empty name stands for the first device with such a port, and port 0 for the first that is active, or else
// the first.
func umadDevice(name string, num int) (*device, int, error) {
	var failed error = syscall.ENODEV
	for _, l := range listedDevices() {
		if name != "" && l.Name != name && !(len(name) == C.RJ_UMAD_NAME-1 && strings.HasPrefix(l.Name, name)) {
			continue
		}
		d, err := acquire(l.Name)
		if err != nil {
			failed = err
			continue
		}
		if n := d.umadPort(num, name == ""); n != 0 {
			return d, n, nil
		}
		d.release()
	}
	return nil, 0, failed
}

// umadPort returns the number of a port, 0: there is none. subnet: it is to have a subnet.
func (d *device) umadPort(num int, subnet bool) (found int) {
	ports := d.Query().Ports
	for n := 1; n <= ports; n++ {
		p, err := d.Port(n)
		if err != nil || num != 0 && n != num || subnet && p.Link != verbs.LinkInfiniBand {
			continue
		}
		if p.State == verbs.PortActive {
			return n
		}
		if found == 0 {
			found = n
		}
	}
	return found
}

//export rj_umad_ca
func rj_umad_ca(name *C.char, out *C.struct_rj_umad_ca) C.int {
	if out == nil {
		return einval
	}
	d, _, err := umadDevice(C.GoString(name), 0)
	if err != nil {
		return errno(err)
	}
	defer d.release()
	a := d.Query()
	*out = C.struct_rj_umad_ca{nports: C.int(a.Ports), node_guid: C.uint64_t(be64(a.NodeGUID)),
		system_guid: C.uint64_t(be64(a.SysImageGUID))}
	node, _ := nodeOf(a.Transport)
	out.node_type = C.uint(node)
	text(out.name[:], d.name)
	text(out.fw_ver[:], a.Firmware)
	text(out._type[:], "Ramjet "+a.Kind)
	text(out.hw_ver[:], "0")
	return ok
}

//export rj_umad_port
func rj_umad_port(name *C.char, num C.int, out *C.struct_rj_umad_port, pkeys *C.uint16_t, room C.int) C.int {
	if out == nil || pkeys == nil {
		return einval
	}
	d, n, err := umadDevice(C.GoString(name), int(num))
	if err != nil {
		return errno(err)
	}
	defer d.release()
	p, err := d.Port(n)
	if err != nil {
		return errno(err)
	}
	gids, err := d.GIDs(n)
	if err != nil {
		return errno(err)
	}
	keys, err := d.PKeys(n)
	if err != nil {
		return errno(err)
	}
	*out = C.struct_rj_umad_port{num: C.int(n), lid: C.uint(p.LID), lmc: C.uint(p.LMC), sm_lid: C.uint(p.SMLID),
		sm_sl: C.uint(p.SL),
		state: C.uint(p.State), phys_state: C.uint(p.Subnet.PhysState), rate: C.uint(cdevices.Rate(&p) / 1000),
		capmask: C.uint32_t(be32(p.Subnet.CapMask))}
	text(out.name[:], d.name)
	text(out.link_layer[:], p.Link.String())
	if len(gids) > 0 {
		g := gids[0].GID
		out.gid_prefix, out.guid = C.uint64_t(binary.NativeEndian.Uint64(g[:])),
			C.uint64_t(binary.NativeEndian.Uint64(g[8:]))
	}
	for i, k := range keys[:min(len(keys), int(room))] {
		*(*C.uint16_t)(unsafe.Add(unsafe.Pointer(pkeys), 2*i)) = C.uint16_t(k)
		out.npkeys++
	}
	return ok
}
