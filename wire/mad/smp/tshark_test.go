// SPDX-License-Identifier: Apache-2.0

package smp_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// frame returns a datagram in an InfiniBand packet to queue pair qp: LRH, BTH, DETH, datagram and room
// for the CRCs.
func frame(qp ib.QPN, datagram []byte) []byte {
	b := []byte{0xf0, 0x02, 0xff, 0xff, 0, 72, 0xff, 0xff} // lane 15, BTH next, 72 words
	bth := ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: qp}
	b = bth.Append(b)
	deth := ib.DETH{SrcQP: qp, QKey: ib.QKey(0x80010000 * qp)}
	b = append(deth.Append(b), datagram...)
	return append(b, make([]byte, 6)...)
}

// capture writes packets into a pcap file. Its link type is ERF, whose records have a type for
// InfiniBand: tshark 4.0 does not read link type 247.
func capture(t *testing.T, packets [][]byte) string {
	t.Helper()
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(le.AppendUint16(b, 2), 4)
	for _, w := range []uint32{0, 0, 65535, 197} {
		b = le.AppendUint32(b, w)
	}
	for _, p := range packets {
		erf := append(make([]byte, 8), 21, 4) // time; type InfiniBand, flags: the record may be of any length
		erf = binary.BigEndian.AppendUint16(erf, uint16(16+len(p)))
		erf = binary.BigEndian.AppendUint16(append(erf, 0, 0), uint16(len(p)))
		p = append(erf, p...)
		for _, w := range []uint32{0, 0, uint32(len(p)), uint32(len(p))} {
			b = le.AppendUint32(b, w)
		}
		b = append(b, p...)
	}
	file := filepath.Join(t.TempDir(), "smp.pcap")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// reading is a datagram, and the values that tshark has to find in its fields, by their names below "infiniband.".
type reading struct {
	name     string
	qp       ib.QPN
	datagram []byte
	want     map[string][]uint64
}

// one is a field with one value.
func one(v uint64) []uint64 { return []uint64{v} }

// directed returns a packet with a directed route that has an attribute.
func directed(a mad.Attribute, data interface{ Append(b []byte) []byte }) []byte {
	p := smp.NewDirected(mad.MethodGetResp, a, 0x01020304, 0x1122334455667788, []uint8{1, 7, 3})
	p.MKey = 0x0102030405060708
	data.Append(p.Data[:0])
	return p.Append(nil)
}

// perf returns a datagram of performance management.
func perf(a mad.Attribute, data interface{ Append(b []byte) []byte }) []byte {
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGetResp, Attribute: a}
	b := make([]byte, mad.Size)
	h.Append(b[:0])
	data.Append(b[:pm.DataOffset])
	return b
}

func readings() []reading {
	route := smp.NewDirected(mad.MethodGetResp, smp.AttrNodeInfo, 5, 0x1122334455667788, []uint8{1, 7, 3})
	route.SetReturning()
	route.Header.Status |= mad.StatusInvalidField
	route.SetHops(2, 3)
	route.DrSLID, route.DrDLID = 9, 10
	info := smp.PortInfo{MKey: 0x0102030405060708, GIDPrefix: 0xfe80 << 48, LID: 0x1234, MasterSMLID: 0x2345,
		CapMask:  smp.CapSM | smp.CapClientReregister,
		DiagCode: 0x3456, Lease: 0x4567, LocalPort: 8, Protect: 2, LMC: 5,
		Link: smp.PortLink{WidthEnabled: 3, WidthSupported: 11, WidthActive: 2, SpeedSupported: 7, State: 4,
			PhysState: 5, DownDefault: 2, SpeedActive: 4, SpeedEnabled: 3},
		Lanes: smp.PortLanes{NeighborMTU: 5, MasterSMSL: 3, Cap: 4, InitType: 1, HighLimit: 77, ArbHighCap: 33,
			ArbLowCap: 44, InitTypeReply: 2, MTUCap: 4, StallCount: 6, HOQLife: 17, OperationalVLs: 3, EnforceIn: true,
			FilterRawIn: true},
		Violations: smp.Violations{MKey: 11, PKey: 12, QKey: 13, LocalPhyErrors: 8, OverrunErrors: 9}, GUIDCap: 16,
		ClientReregister: true, SubnetTimeout: 18, RespTime: 16, MaxCreditHint: 0x789, RoundTripLatency: 0x345678}
	sw := smp.SwitchInfo{LinearCap: 49152, RandomCap: 2, MulticastCap: 1024, LinearTop: 77, DefaultPort: 3,
		PrimaryMulticast: 4, NotPrimaryMulticast: 5, LifeTime: 18, PortStateChange: true, SLtoVLOptions: 2,
		LIDsPerPort: 6, EnforcementCap: 32,
		Flags: smp.SwitchEnforcesIn | smp.SwitchFiltersRawOut}
	lanes, arbitration, linear, groups := smp.SLtoVL{}, smp.VLArbitration{}, smp.LinearTable{}, smp.MulticastTable{}
	var high, low, vls, weights, ports, masks []uint64
	for i := range lanes {
		lanes[i] = uint8(15 - i)
		if i%2 == 0 {
			high = append(high, uint64(15-i))
		} else {
			low = append(low, uint64(15-i))
		}
	}
	for i := range arbitration {
		arbitration[i] = smp.ArbEntry{VL: uint8(i) % 15, Weight: uint8(100 + i)}
		vls, weights = append(vls, uint64(i)%15), append(weights, uint64(100+i))
	}
	for i := range linear {
		linear[i] = uint8(3 * i)
		ports = append(ports, uint64(uint8(3*i)))
	}
	for i := range groups {
		groups[i] = uint16(i * 2049)
		masks = append(masks, uint64(uint16(i*2049)))
	}
	masks = masks[:16] // tshark 4.0 shows half of a block
	trap := mad.Notice{Generic: true, Type: mad.NoticeSecurity, Producer: 0x020304, Trap: mad.TrapMKey, Issuer: 0x1234,
		Toggle: true, Count: 0x2345}
	(&mad.MKeyDetails{LID: 5, DrSLID: 6, Method: mad.MethodSet, Attribute: smp.AttrPortInfo, Modifier: 7, MKey: 8,
		Directed: true, HopCount: 9}).Encode(&trap.Details)
	lid := smp.New(mad.MethodTrap, mad.AttrNotice, 0, 1)
	lid.MKey = 0x0a
	trap.Append(lid.Data[:0])
	return []reading{
		{"directed route", ib.QP0, route.Append(nil), map[string][]uint64{
			"mad.baseversion": one(1), "mad.mgmtclass": one(0x81), "mad.classversion": one(1), "mad.method": one(0x81),
			"mad.transactionid": one(0x1122334455667788),
			// tshark counts the direction in
			"mad.attributeid": one(0x11), "mad.attributemodifier": one(5), "smpdirected.smpstatus": one(0x801c),
			"smpdirected.hoppointer": one(2), "smpdirected.hopcount": one(3), "smpdirected.drslid": one(9),
			"smpdirected.drdlid": one(10)}},
		{"NodeInfo", ib.QP0, directed(smp.AttrNodeInfo,
			&smp.NodeInfo{BaseVersion: 1, ClassVersion: 2, NodeType: 2, NumPorts: 36, SystemGUID: 3, NodeGUID: 4,
				PortGUID: 5, PartitionCap: 6, DeviceID: 7, Revision: 8, LocalPort: 9,
				VendorID: 0x0a0b0c}), map[string][]uint64{
			"nodeinfo.baseversion": one(1), "nodeinfo.classversion": one(2), "nodeinfo.nodetype": one(2),
			"nodeinfo.numports": one(36), "nodeinfo.systemimageguid": one(3),
			"nodeinfo.nodeguid": one(4), "nodeinfo.portguid": one(5), "nodeinfo.partitioncap": one(6),
			"nodeinfo.deviceid": one(7), "nodeinfo.revision": one(8),
			"nodeinfo.localportnum": one(9), "nodeinfo.vendorid": one(0x0a0b0c)}},
		{"SwitchInfo", ib.QP0, directed(smp.AttrSwitchInfo, &sw), map[string][]uint64{
			"switchinfo.linearfdbcap": one(49152), "switchinfo.randomfdbcap": one(2),
			"switchinfo.multicastfdbcap": one(1024), "switchinfo.linearfdbtop": one(77),
			"switchinfo.defaultport": one(3), "switchinfo.defaultmulticastprimaryport": one(4),
			"switchinfo.defaultmulticastnotprimaryport": one(5),
			"switchinfo.lifetimevalue":                  one(18), "switchinfo.portstatechange": one(1),
			"switchinfo.optimizedsltovlmappingprogramming": one(2),
			"switchinfo.lidsperport":                       one(6), "switchinfo.partitionenforcementcap": one(32),
			"switchinfo.inboundenforcementcap":  one(1),
			"switchinfo.outboundenforcementcap": one(0), "switchinfo.filterrawinboundcap": one(0),
			"switchinfo.filterrawoutboundcap": one(1), "switchinfo.enhancedportzero": one(0)}},
		{"PortInfo", ib.QP0, directed(smp.AttrPortInfo, &info), map[string][]uint64{
			"portinfo.m_key": one(0x0102030405060708), "portinfo.guid": one(0xfe80 << 48), "portinfo.lid": one(0x1234),
			"portinfo.mastersmlid":         one(0x2345),
			"portinfo.capabilitymask.issm": one(1), "portinfo.capabilitymask.clientregistrationsupported": one(1),
			"portinfo.capabilitymask.trapsupported": one(0),
			"portinfo.diagcode":                     one(0x3456), "portinfo.m_keyleaseperiod": one(0x4567),
			"portinfo.localportnum":     one(8),
			"portinfo.linkwidthenabled": one(3), "portinfo.linkwidthsupported": one(11),
			"portinfo.linkwidthactive": one(2), "portinfo.linkspeedsupported": one(7),
			"portinfo.portstate": one(4), "portinfo.portphysicalstate": one(5), "portinfo.linkdowndefaultstate": one(2),
			"portinfo.m_keyprotectbits": one(2), "portinfo.lmc": one(5),
			"portinfo.linkspeedactive": one(4), "portinfo.linkspeedenabled": one(3), "portinfo.neighbormtu": one(5),
			"portinfo.mastersmsl": one(3), "portinfo.vlcap": one(4),
			"portinfo.inittype": one(1), "portinfo.vlhighlimit": one(77), "portinfo.vlarbitrationhighcap": one(33),
			"portinfo.vlarbitrationlowcap": one(44),
			"portinfo.inittypereply":       one(2), "portinfo.mtucap": one(4), "portinfo.vlstallcount": one(6),
			"portinfo.hoqlife": one(17), "portinfo.operationalvls": one(3),
			"portinfo.partitionenforcementinbound": one(1), "portinfo.partitionenforcementoutbound": one(0),
			"portinfo.filterrawinbound": one(1), "portinfo.filterrawoutbound": one(0),
			"portinfo.m_keyviolations": one(11), "portinfo.p_keyviolations": one(12),
			"portinfo.q_keyviolations": one(13), "portinfo.guidcap": one(16),
			"portinfo.clientreregister": one(1), "portinfo.subnettimeout": one(18), "portinfo.resptimevalue": one(16),
			"portinfo.localphyerrors": one(8),
			"portinfo.overrunerrors":  one(9), "portinfo.maxcredithint": one(0x789),
			"portinfo.linkroundtriplatency": one(0x345678)}},
		{"SLtoVLMappingTable", ib.QP0, directed(smp.AttrSLtoVL, &lanes),
			map[string][]uint64{"sltovlmappingtable.sltovlhighbits": high, "sltovlmappingtable.sltovllowbits": low}},
		{"VLArbitrationTable", ib.QP0, directed(smp.AttrVLArbitration, &arbitration),
			map[string][]uint64{"vlarbitrationtable.vl": vls, "vlarbitrationtable.weight": weights}},
		{"LinearForwardingTable", ib.QP0, directed(smp.AttrLinearTable, &linear),
			map[string][]uint64{"linearforwardingtable.port": ports}},
		{"MulticastForwardingTable", ib.QP0, directed(smp.AttrMulticastTable, &groups),
			map[string][]uint64{"multicastforwardingtable.portmask": masks}},
		{"SMInfo", ib.QP0, directed(smp.AttrSMInfo,
			&smp.SMInfo{GUID: 1, SMKey: 2, ActCount: 3, Priority: 14, State: smp.SMMaster}), map[string][]uint64{
			"sminfo.guid": one(1), "sminfo.sm_key": one(2), "sminfo.actcount": one(3), "sminfo.priority": one(14),
			"sminfo.smstate": one(3)}},
		{"Notice", ib.QP0, lid.Append(nil), map[string][]uint64{
			"smplid.mkey": one(0x0a), "notice.isgeneric": one(1), "notice.type": one(2),
			"notice.producertypevendorid": one(0x020304), "notice.trapnumberdeviceid": one(256),
			"notice.issuerlid": one(0x1234), "notice.noticetoggle": one(1), "notice.noticecount": one(0x2345)}},
		{"PortCounters", ib.QP1, perf(pm.AttrPortCounters,
			&pm.PortCounters{Port: 1, Select: 0x1234, SymbolErrors: 2, LinkErrorRecovery: 3, LinkDowned: 4,
				RcvErrors: 5, RcvRemotePhysical: 6, RcvSwitchRelay: 7, XmitDiscards: 8, XmitConstraint: 9,
				RcvConstraint:  10,
				LocalIntegrity: 11, BufferOverrun: 12, VL15Dropped: 13,
				XmitData: 14, RcvData: 15, XmitPkts: 16, RcvPkts: 17}), map[string][]uint64{
			"portcounters.portselect": one(1), "portcounters.counterselect": one(0x1234),
			"portcounters.symbolerrorcounter":       one(2),
			"portcounters.linkerrorrecoverycounter": one(3), "portcounters.linkdownedcounter": one(4),
			"portcounters.portrcverrors":               one(5),
			"portcounters.portrcvremotephysicalerrors": one(6), "portcounters.portrcvswitchrelayerrors": one(7),
			"portcounters.portxmitdiscards":         one(8),
			"portcounters.portxmitconstrainterrors": one(9), "portcounters.portrcvconstrainterrors": one(10),
			"portcounters.locallinkintegrityerrors":     one(11),
			"portcounters.excessivebufferoverrunerrors": one(12), "portcounters.vl15dropped": one(13),
			"portcounters.portxmitdata": one(14),
			"portcounters.portrcvdata":  one(15), "portcounters.portxmitpkts": one(16),
			"portcounters.portrcvpkts": one(17)}},
		{"PortCountersExtended", ib.QP1, perf(pm.AttrPortCountersExtended,
			&pm.PortCountersExtended{Port: 1, Select: 0xff,
				Traffic: [8]uint64{2, 3, 4, 5, 6, 7, 8, 9}}), map[string][]uint64{
			"portcounters_ext.portselect": one(1), "portcounters_ext.counterselect": one(0xff),
			"portcounters_ext.portxmitdata": one(2), "portcounters_ext.portrcvdata": one(3),
			"portcounters_ext.portxmitpkts": one(4), "portcounters_ext.portrcvpkts": one(5),
			"portcounters_ext.portunicastxmitpkts": one(6),
			"portcounters_ext.portunicastrcvpkts":  one(7), "portcounters_ext.portmulticastxmitpkts": one(8),
			"portcounters_ext.portmulticastrcvpkts": one(9)}},
		{"ClassPortInfo", ib.QP1, perf(mad.AttrClassPortInfo,
			&mad.ClassPortInfo{BaseVersion: 1, ClassVersion: 2, CapMask: 0x1304, CapMask2: 2, RespTime: 17,
				Redirect: mad.Address{TrafficClass: 3, SL: 4, FlowLabel: 5, LID: 6, PKey: 7, QPN: 8, QKey: 9},
				Trap: mad.Address{TrafficClass: 10, SL: 11, FlowLabel: 12, LID: 13, PKey: 14, QPN: 15,
					QKey: 16}}), map[string][]uint64{
			"classportinfo.baseversion": one(1), "classportinfo.classversion": one(2),
			"classportinfo.capabilitymask": one(0x1304), "classportinfo.capabilitymask2": one(2),
			"classportinfo.resptimevalue": one(17), "classportinfo.redirecttc": one(3),
			"classportinfo.redirectsl": one(4), "classportinfo.redirectfl": one(5),
			"classportinfo.redirectlid": one(6), "classportinfo.redirectpkey": one(7),
			"classportinfo.redirectqp": one(8), "classportinfo.redirectqkey": one(9),
			"classportinfo.traptc": one(10), "classportinfo.trapsl": one(11), "classportinfo.trapfl": one(12),
			"classportinfo.traplid":  one(13),
			"classportinfo.trappkey": one(14), "classportinfo.trapqp": one(15), "classportinfo.trapqkey": one(16)}},
	}
}

// TestTshark: tshark reads the encoded values as they were meant, field by field.
func TestTshark(t *testing.T) {
	tshark.Need(t)
	all := readings()
	var packets [][]byte
	for _, r := range all {
		packets = append(packets, frame(r.qp, r.datagram))
	}
	args := []string{"-T", "fields", "-E", "separator=|", "-E", "aggregator=,"}
	column := make(map[string]int)
	for _, r := range all {
		for name := range r.want {
			if _, ok := column[name]; !ok {
				column[name] = len(column)
				args = append(args, "-e", "infiniband."+name)
			}
		}
	}
	out := tshark.Read(t, capture(t, packets), args...)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("tshark says %d lines about %d packets:\n%s", len(lines), len(all), out)
	}
	for i, r := range all {
		values := strings.Split(lines[i], "|")
		if len(values) != len(column) {
			t.Fatalf("%s: tshark says %q", r.name, lines[i])
		}
		for name, want := range r.want {
			got := strings.Split(values[column[name]], ",")
			if len(got) != len(want) {
				t.Errorf("%s: %s has %q, want %#x", r.name, name, got, want)
				continue
			}
			for j, w := range want {
				if v, err := strconv.ParseUint(got[j], 0, 64); err != nil || v != w {
					t.Errorf("%s: %s is %q, want %#x", r.name, name, got[j], w)
				}
			}
		}
	}
}
