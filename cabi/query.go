// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"cmp"
	"math/bits"
	"net"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Link speeds of ibv_query_port (IBTA 14.2.5.6): the number of lanes and the rate of one.
const (
	width1x, width2x, width4x, width8x, width12x = 1, 16, 2, 4, 8

	speedSDR, speedDDR, speedFDR10, speedEDR, speedHDR, speedNDR = 1, 2, 8, 32, 64, 128

	physLinkUp   = 5
	physDisabled = 3
)

// noVendor is the vendor id of devices without a vendor, as in the kernel's rxe. Some programs take
// 0 for a failure.
const noVendor = 0xffffff

//export rj_query_device
func rj_query_device(h C.uint64_t, out *C.struct_ibv_device_attr_ex) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	a := c.dev.Query()
	*out = C.struct_ibv_device_attr_ex{}
	o := &out.orig_attr
	text(o.fw_ver[:], a.Firmware)
	o.node_guid, o.sys_image_guid = C.__be64(be64(a.NodeGUID)), C.__be64(be64(a.SysImageGUID))
	o.max_mr_size, o.page_size_cap = C.uint64_t(a.MaxMRSize), C.uint64_t(a.PageSizes)
	o.vendor_id, o.vendor_part_id, o.hw_ver = C.uint32_t(cmp.Or(a.VendorID, noVendor)), C.uint32_t(a.VendorPartID),
		C.uint32_t(a.HWVersion)
	o.max_qp, o.max_qp_wr = C.int(a.MaxQP), C.int(a.MaxQPWR)
	o.device_cap_flags = C.uint(capFlags(a.Caps))
	o.max_sge, o.max_sge_rd = C.int(a.MaxSGE), C.int(a.MaxSGERead)
	o.max_cq, o.max_cqe = C.int(a.MaxCQ), C.int(a.MaxCQE)
	o.max_mr, o.max_pd, o.max_mw, o.max_ah = C.int(a.MaxMR), C.int(a.MaxPD), C.int(a.MaxMW), C.int(a.MaxAH)
	o.max_qp_rd_atom, o.max_qp_init_rd_atom = C.int(a.MaxQPRdAtomic), C.int(a.MaxQPInitRdAtomic)
	o.max_res_rd_atom = C.int(a.MaxQPRdAtomic * a.MaxQP)
	// Atomic also with respect to the processors, which is more than among queue pairs. Programs
	// written for hardware check for the latter only.
	o.atomic_cap = min(uint32(a.Atomic), C.IBV_ATOMIC_HCA)
	o.max_mcast_grp, o.max_mcast_qp_attach = C.int(a.MaxMcastGroups), C.int(a.MaxMcastQP)
	o.max_total_mcast_qp_attach = C.int(min(a.MaxMcastGroups*a.MaxMcastQP, 1<<31-1))
	o.max_srq, o.max_srq_wr, o.max_srq_sge = C.int(a.MaxSRQ), C.int(a.MaxSRQWR), C.int(a.MaxSRQSGE)
	o.max_pkeys = C.uint16_t(a.MaxPKeys)
	for d := a.LocalCAAckDelay; d > 4096; d /= 2 {
		o.local_ca_ack_delay++
	}
	o.phys_port_cnt = C.uint8_t(a.Ports)

	if a.Caps&verbs.CapOnDemand != 0 { // nothing is ever pinned
		const ud = C.IBV_ODP_SUPPORT_SEND | C.IBV_ODP_SUPPORT_RECV | C.IBV_ODP_SUPPORT_SRQ_RECV
		const rc = ud | C.IBV_ODP_SUPPORT_WRITE | C.IBV_ODP_SUPPORT_READ | C.IBV_ODP_SUPPORT_ATOMIC
		out.odp_caps.general_caps = C.IBV_ODP_SUPPORT
		out.odp_caps.per_transport_caps.rc_odp_caps, out.xrc_odp_caps = rc, rc
		if a.Caps&verbs.CapUC != 0 {
			out.odp_caps.per_transport_caps.uc_odp_caps = ud | C.IBV_ODP_SUPPORT_WRITE
		}
		if a.Caps&verbs.CapUD != 0 {
			out.odp_caps.per_transport_caps.ud_odp_caps = ud
		}
	}
	out.completion_timestamp_mask = 1<<64 - 1
	out.hca_core_clock = 1e6 // kHz: nanoseconds
	out.device_cap_flags_ex = C.uint64_t(o.device_cap_flags) | capFlagsEx(a.Caps)
	out.phys_port_cnt_ex = C.uint32_t(a.Ports)
	return ok
}

func capFlags(c verbs.DeviceCap) (f uint32) {
	for _, m := range []struct {
		cap  verbs.DeviceCap
		flag uint32
	}{
		{verbs.CapXRC, C.IBV_DEVICE_XRC},
		{verbs.CapMWType1, C.IBV_DEVICE_MEM_WINDOW},
		{verbs.CapMWType2B, C.IBV_DEVICE_MEM_WINDOW_TYPE_2B},
		{verbs.CapSendInvalidate, C.IBV_DEVICE_MEM_MGT_EXTENSIONS},
		{verbs.CapRNRNak, C.IBV_DEVICE_RC_RNR_NAK_GEN},
		{verbs.CapSRQResize, C.IBV_DEVICE_SRQ_RESIZE},
	} {
		if c&m.cap != 0 {
			f |= m.flag
		}
	}
	return f | C.IBV_DEVICE_CURR_QP_STATE_MOD | C.IBV_DEVICE_SYS_IMAGE_GUID
}

// capFlagsEx returns the capabilities above the first 32 bits, with the kernel's values (enum
// ib_uverbs_device_cap_flags).
func capFlagsEx(c verbs.DeviceCap) (f C.uint64_t) {
	for _, m := range []struct {
		cap verbs.DeviceCap
		bit int
	}{{verbs.CapFlush, 38}, {verbs.CapFlushPersistent, 39}, {verbs.CapAtomicWrite, 40}} {
		if c&m.cap != 0 {
			f |= 1 << m.bit
		}
	}
	return f
}

//export rj_query_port
func rj_query_port(h C.uint64_t, port C.int, out *C.struct_ibv_port_attr) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	p, err := c.dev.Port(int(port))
	if err != nil {
		return errno(err)
	}
	*out = C.struct_ibv_port_attr{}
	out.state = uint32(p.State) // the same numbers
	out.phys_state = physDisabled
	if p.State == verbs.PortActive {
		out.phys_state = physLinkUp
	}
	out.max_mtu, out.active_mtu = uint32(p.MaxMTU), uint32(p.ActiveMTU)
	out.gid_tbl_len, out.pkey_tbl_len = C.int(p.GIDs), C.uint16_t(p.PKeys)
	out.max_msg_sz = C.uint32_t(min(p.MaxMsg, 1<<32-1))
	out.lid, out.sm_lid, out.sm_sl = C.uint16_t(p.LID), C.uint16_t(p.SMLID), C.uint8_t(p.SL)
	out.lmc = C.uint8_t(p.LMC)
	out.max_vl_num = 1
	out.port_cap_flags = C.IBV_PORT_CM_SUP | C.IBV_PORT_IP_BASED_GIDS
	out.link_layer = C.IBV_LINK_LAYER_ETHERNET
	out.active_width, out.active_speed = linkSpeed(cdevices.Speed(p.SpeedMbps))
	if p.Link == verbs.LinkInfiniBand {
		out.link_layer = C.IBV_LINK_LAYER_INFINIBAND
	}
	if s := &p.Subnet; *s != (verbs.SubnetPort{}) { // the same numbers
		out.phys_state, out.port_cap_flags = C.uint8_t(s.PhysState), C.uint32_t(s.CapMask)
		out.max_vl_num, out.subnet_timeout = C.uint8_t(s.VLs), C.uint8_t(s.SubnetTimeout)
		out.active_width, out.active_speed = C.uint8_t(s.Width), C.uint8_t(s.Speed)
	}
	return ok
}

// linkSpeed returns the slowest link of the table that is at least as fast. From 10 Gbit/s on they are links as the
// kernel has them for Ethernet, whose numbers are of data: of SDR to QDR a fifth is the encoding, and UCX takes their
// latency for that of the first InfiniBand adapters, 5 µs.
func linkSpeed(mbps int64) (width, speed C.uint8_t) {
	switch {
	case mbps <= 2500:
		return width1x, speedSDR
	case mbps <= 5000:
		return width1x, speedDDR
	case mbps <= 10000:
		return width1x, speedFDR10
	case mbps <= 25000:
		return width1x, speedEDR
	case mbps <= 40000:
		return width4x, speedFDR10
	case mbps <= 50000:
		return width1x, speedHDR
	case mbps <= 100000:
		return width4x, speedEDR
	case mbps <= 200000:
		return width4x, speedHDR
	}
	return width4x, speedNDR
}

// rj_query_speed returns the port's speed in units of 100 Mbit/s.
//
//export rj_query_speed
func rj_query_speed(h C.uint64_t, port C.int, out *C.uint64_t) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	p, err := c.dev.Port(int(port))
	if err != nil {
		return errno(err)
	}
	*out = C.uint64_t(cdevices.Speed(p.SpeedMbps) / 100)
	return ok
}

//export rj_query_gid
func rj_query_gid(h C.uint64_t, port, index C.int, out *C.struct_ibv_gid_entry) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	gids, err := c.dev.GIDs(int(port))
	if err != nil {
		return errno(err)
	}
	if p, err := c.dev.Port(int(port)); err == nil && (index < 0 || int(index) >= p.GIDs) {
		return einval // beyond the table; a row without an address is ENODATA
	}
	for _, g := range gids {
		if g.Index != int(index) {
			continue
		}
		*out = C.struct_ibv_gid_entry{gid_index: C.uint32_t(index), port_num: C.uint32_t(port),
			gid_type: C.IBV_GID_TYPE_ROCE_V2}
		out.gid = g.GID
		switch g.Type {
		case verbs.GIDRoCEv2:
		case verbs.GIDRoCEv1:
			out.gid_type = C.IBV_GID_TYPE_ROCE_V1
		default:
			out.gid_type = C.IBV_GID_TYPE_IB
		}
		if ifi, err := net.InterfaceByName(g.NetDev); err == nil {
			out.ndev_ifindex = C.uint32_t(ifi.Index)
		}
		return ok
	}
	return C.int(syscall.ENODATA)
}

//export rj_query_pkey
func rj_query_pkey(h C.uint64_t, port, index C.int, pkey *C.uint16_t) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	keys, err := c.dev.PKeys(int(port))
	if err != nil {
		return errno(err)
	}
	if pkey == nil || index < 0 || int(index) >= len(keys) {
		return einval
	}
	*pkey = C.uint16_t(bits.ReverseBytes16(uint16(keys[index])))
	return ok
}

// rj_resolve_mac finds the link-layer address of a destination on the same link. Only that of the
// loopback interface is always known.
//
//export rj_resolve_mac
func rj_resolve_mac(h C.uint64_t, attr *C.struct_ibv_ah_attr, mac *C.uint8_t) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	p, err := c.dev.Port(1)
	if err != nil {
		return errno(err)
	}
	ifi, err := net.InterfaceByName(p.NetDev)
	if err != nil || ifi.Flags&net.FlagLoopback == 0 {
		return C.int(syscall.EOPNOTSUPP)
	}
	out, valid := sliceOf(mac, 6)
	if !valid {
		return einval
	}
	clear(out)
	return ok
}
