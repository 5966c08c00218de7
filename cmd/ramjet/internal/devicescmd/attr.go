// SPDX-License-Identifier: Apache-2.0

package devicescmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// deviceAttr are the attributes of a device by their names in ibv_query_device.
type deviceAttr struct {
	Kind                string   `json:"kind"`
	Transport           string   `json:"transport"`
	FwVer               string   `json:"fw_ver"`
	NodeGUID            string   `json:"node_guid"`
	SysImageGUID        string   `json:"sys_image_guid"`
	VendorID            uint32   `json:"vendor_id"`
	VendorPartID        uint32   `json:"vendor_part_id"`
	HwVer               uint32   `json:"hw_ver"`
	PhysPortCnt         int      `json:"phys_port_cnt"`
	MaxMRSize           uint64   `json:"max_mr_size"`
	PageSizeCap         uint64   `json:"page_size_cap"`
	MaxQP               int      `json:"max_qp"`
	MaxQPWR             int      `json:"max_qp_wr"`
	DeviceCapFlags      []string `json:"device_cap_flags"`
	MaxSGE              int      `json:"max_sge"`
	MaxSGERd            int      `json:"max_sge_rd"`
	MaxInlineData       int      `json:"max_inline_data"`
	MaxCQ               int      `json:"max_cq"`
	MaxCQE              int      `json:"max_cqe"`
	MaxMR               int      `json:"max_mr"`
	MaxPD               int      `json:"max_pd"`
	MaxQPRdAtomic       int      `json:"max_qp_rd_atom"`
	MaxQPInitRdAtomic   int      `json:"max_qp_init_rd_atom"`
	AtomicCap           string   `json:"atomic_cap"`
	AtomicCapNumber     uint8    `json:"atomic_cap_number"`
	MaxMW               int      `json:"max_mw"`
	MaxMcastGrp         int      `json:"max_mcast_grp"`
	MaxMcastQPAttach    int      `json:"max_mcast_qp_attach"`
	MaxAH               int      `json:"max_ah"`
	MaxSRQ              int      `json:"max_srq"`
	MaxSRQWR            int      `json:"max_srq_wr"`
	MaxSRQSGE           int      `json:"max_srq_sge"`
	MaxXRCD             int      `json:"max_xrcd"`
	MaxPKeys            int      `json:"max_pkeys"`
	LocalCAAckDelay     uint8    `json:"local_ca_ack_delay"` // 4.096 µs × 2^n
	MaxMsgSize          uint64   `json:"max_msg_sz"`
	CompletionTimestamp bool     `json:"completion_timestamp"`
	OneSided            string   `json:"one_sided_operations,omitempty"`
}

func newDeviceAttr(a verbs.DeviceAttr) *deviceAttr {
	return &deviceAttr{Kind: a.Kind, Transport: transportText(a.Transport), FwVer: a.Firmware,
		NodeGUID:     cli.GUIDText(a.NodeGUID),
		SysImageGUID: cli.GUIDText(a.SysImageGUID), VendorID: a.VendorID, VendorPartID: a.VendorPartID,
		HwVer: a.HWVersion, PhysPortCnt: a.Ports, MaxMRSize: a.MaxMRSize, PageSizeCap: a.PageSizes, MaxQP: a.MaxQP,
		MaxQPWR:        a.MaxQPWR,
		DeviceCapFlags: strings.Split(a.Caps.String(), "|"), MaxSGE: a.MaxSGE, MaxSGERd: a.MaxSGERead,
		MaxInlineData: a.MaxInline, MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD,
		MaxQPRdAtomic:     a.MaxQPRdAtomic,
		MaxQPInitRdAtomic: a.MaxQPInitRdAtomic, AtomicCap: a.Atomic.String(), AtomicCapNumber: uint8(a.Atomic),
		MaxMW: a.MaxMW, MaxMcastGrp: a.MaxMcastGroups, MaxMcastQPAttach: a.MaxMcastQP, MaxAH: a.MaxAH, MaxSRQ: a.MaxSRQ,
		MaxSRQWR:  a.MaxSRQWR,
		MaxSRQSGE: a.MaxSRQSGE, MaxXRCD: a.MaxXRCD, MaxPKeys: a.MaxPKeys, LocalCAAckDelay: ackDelay(a.LocalCAAckDelay),
		MaxMsgSize: a.MaxMsgSize, CompletionTimestamp: a.Caps&verbs.CapTimestamp != 0, OneSided: a.OneSided}
}

// transportText formats a transport with its number, as ibv_devinfo does.
func transportText(t verbs.Transport) string {
	number := map[verbs.Transport]int{verbs.TransportIB: 0, verbs.TransportIWARP: 1}[t] // ibv_transport_type
	return fmt.Sprintf("%v (%d)", t, number)
}

// ackDelay is the least n for which 4.096 µs × 2^n is at least d (IBTA 11.2.1.2).
func ackDelay(d time.Duration) (n uint8) {
	for n < 31 && 4096*time.Nanosecond<<n < d {
		n++
	}
	return n
}

// portAttr are the attributes of a port by their names in ibv_query_port.
type portAttr struct {
	Port            int       `json:"port"`
	State           string    `json:"state"`
	StateNumber     uint8     `json:"state_number"`
	MaxMTU          string    `json:"max_mtu"`
	MaxMTUNumber    uint8     `json:"max_mtu_number"`
	ActiveMTU       string    `json:"active_mtu"`
	ActiveMTUNumber uint8     `json:"active_mtu_number"`
	SMLID           uint16    `json:"sm_lid"`
	PortLID         uint16    `json:"port_lid"`
	LinkLayer       string    `json:"link_layer"`
	MaxMsgSz        uint64    `json:"max_msg_sz"`
	SMSL            uint8     `json:"sm_sl"`
	PKeyTblLen      int       `json:"pkey_tbl_len"`
	GIDTblLen       int       `json:"gid_tbl_len"`
	SpeedMbps       int64     `json:"speed_mbps,omitempty"`
	PKeys           []string  `json:"pkeys"`
	GIDs            []gidAttr `json:"gids"`
}

// gidAttr is a row of a GID table.
type gidAttr struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	NetDev string `json:"netdev"`
}

func newPortAttr(p verbs.PortAttr, gids []verbs.GIDEntry, pkeys []verbs.PKey) *portAttr {
	a := &portAttr{Port: 1, State: p.State.String(), StateNumber: uint8(p.State), MaxMTU: p.MaxMTU.String(),
		MaxMTUNumber: uint8(p.MaxMTU), ActiveMTU: p.ActiveMTU.String(), ActiveMTUNumber: uint8(p.ActiveMTU),
		SMLID: p.SMLID, PortLID: p.LID, LinkLayer: p.Link.String(), MaxMsgSz: p.MaxMsg, SMSL: p.SL, PKeyTblLen: p.PKeys,
		GIDTblLen: p.GIDs,
		SpeedMbps: p.SpeedMbps}
	for _, k := range pkeys {
		a.PKeys = append(a.PKeys, fmt.Sprintf("0x%04x", uint16(k)))
	}
	for _, g := range gids {
		a.GIDs = append(a.GIDs, gidAttr{g.Index, cli.GIDText(g.GID), g.Type.String(), g.NetDev})
	}
	return a
}

// writeDeviceInfo writes a device in the format of ibv_devinfo -v, which programs and people know.
// Attributes that only hardware has are left out.
func writeDeviceInfo(out io.Writer, d *Info) {
	fmt.Fprintf(out, "hca_id:\t%s\n", d.Name)
	if !d.Openable {
		fmt.Fprintf(out, "\tcannot be opened: %s\n\n", d.Problem)
		return
	}
	line := func(indent int, name string, format string, v ...any) {
		fmt.Fprintf(out, "%s%-*s%s\n", strings.Repeat("\t", indent), 32-8*(indent/2), name+":",
			fmt.Sprintf(format, v...))
	}
	a, p := d.Attr, d.Port
	if d.CName != "" {
		line(1, "in C programs", "%s", d.CName)
	}
	line(1, "transport", "%s", a.Transport)
	line(1, "fw_ver", "%s", a.FwVer)
	line(1, "node_guid", "%s", a.NodeGUID)
	line(1, "sys_image_guid", "%s", a.SysImageGUID)
	line(1, "vendor_id", "0x%04x", a.VendorID)
	line(1, "vendor_part_id", "%d", a.VendorPartID)
	line(1, "hw_ver", "0x%X", a.HwVer)
	line(1, "phys_port_cnt", "%d", a.PhysPortCnt)
	line(1, "max_mr_size", "0x%x", a.MaxMRSize)
	line(1, "page_size_cap", "0x%x", a.PageSizeCap)
	line(1, "max_qp", "%d", a.MaxQP)
	line(1, "max_qp_wr", "%d", a.MaxQPWR)
	line(1, "device_cap_flags", "%s", strings.Join(a.DeviceCapFlags, "\n\t"+strings.Repeat(" ", 32)))
	line(1, "max_sge", "%d", a.MaxSGE)
	line(1, "max_sge_rd", "%d", a.MaxSGERd)
	line(1, "max_inline_data", "%d", a.MaxInlineData)
	line(1, "max_cq", "%d", a.MaxCQ)
	line(1, "max_cqe", "%d", a.MaxCQE)
	line(1, "max_mr", "%d", a.MaxMR)
	line(1, "max_pd", "%d", a.MaxPD)
	line(1, "max_qp_rd_atom", "%d", a.MaxQPRdAtomic)
	line(1, "max_qp_init_rd_atom", "%d", a.MaxQPInitRdAtomic)
	line(1, "atomic_cap", "%s (%d)", a.AtomicCap, a.AtomicCapNumber)
	line(1, "max_mw", "%d", a.MaxMW)
	line(1, "max_mcast_grp", "%d", a.MaxMcastGrp)
	line(1, "max_mcast_qp_attach", "%d", a.MaxMcastQPAttach)
	line(1, "max_ah", "%d", a.MaxAH)
	line(1, "max_srq", "%d", a.MaxSRQ)
	line(1, "max_srq_wr", "%d", a.MaxSRQWR)
	line(1, "max_srq_sge", "%d", a.MaxSRQSGE)
	line(1, "max_xrcd", "%d", a.MaxXRCD)
	line(1, "max_pkeys", "%d", a.MaxPKeys)
	line(1, "local_ca_ack_delay", "%d", a.LocalCAAckDelay)
	if a.CompletionTimestamp {
		line(1, "completion timestamp", "nanoseconds")
	}
	if a.OneSided != "" {
		line(1, "one-sided operations", "%s", a.OneSided)
	}
	fmt.Fprintf(out, "\t\tport:\t%d\n", p.Port)
	line(3, "state", "%s (%d)", p.State, p.StateNumber)
	line(3, "max_mtu", "%s (%d)", p.MaxMTU, p.MaxMTUNumber)
	line(3, "active_mtu", "%s (%d)", p.ActiveMTU, p.ActiveMTUNumber)
	if d.NetDev != "" {
		line(3, "link_mtu", "%d", d.LinkMTU)
		line(3, "netdev", "%s", d.NetDev)
	}
	line(3, "sm_lid", "%d", p.SMLID)
	line(3, "port_lid", "%d", p.PortLID)
	line(3, "link_layer", "%s", p.LinkLayer)
	line(3, "max_msg_sz", "0x%x", p.MaxMsgSz)
	line(3, "sm_sl", "%d", p.SMSL)
	line(3, "pkey_tbl_len", "%d", p.PKeyTblLen)
	line(3, "gid_tbl_len", "%d", p.GIDTblLen)
	if p.SpeedMbps > 0 {
		line(3, "active_speed", "%d Mbit/sec", p.SpeedMbps)
	}
	for i, k := range p.PKeys {
		if k == "0x0000" {
			continue // the row is empty
		}
		line(3, fmt.Sprintf("PKEY[%3d]", i), "%s", k)
	}
	for _, g := range p.GIDs {
		line(3, fmt.Sprintf("GID[%3d]", g.Index), "%s, %s", g.GID, g.Type)
	}
	fmt.Fprintln(out)
}
