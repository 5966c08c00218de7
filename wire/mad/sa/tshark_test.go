// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// TestTshark compares encoded values with the values that Wireshark's dissector reads, in datagrams to queue
// pair 1 over RoCEv2.
func TestTshark(t *testing.T) {
	tshark.Need(t)
	gid := func(b byte) ib.GID { return ib.GID{0: 0xfe, 1: 0x80, 15: b} }
	cases := []struct {
		attribute mad.Attribute
		record    interface{ Append([]byte) []byte }
		want      map[string]string
	}{
		{AttrPathRecord, &PathRecord{DGID: gid(1), SGID: gid(2), DLID: 0x1234, SLID: 0x2345, RawTraffic: true,
			FlowLabel: 0xabcde, HopLimit: 7, TClass: 9, Reversible: true, NumbPath: 5, PKey: 0x8001, SL: 11,
			MTU:  Selected{Exactly, 4},
			Rate: Selected{LessThan, 16},
			Life: Selected{Best, 18}, Preference: 3},
			map[string]string{"pathrecord.dgid": "fe80::1", "pathrecord.sgid": "fe80::2", "pathrecord.dlid": "0x1234",
				"pathrecord.slid": "0x2345", "pathrecord.hoplimit": "0x07", "pathrecord.tclass": "0x09",
				"pathrecord.p_key": "0x8001", "pathrecord.mtuselector": "0x02", "pathrecord.mtu": "0x04",
				"pathrecord.rateselector": "0x01", "pathrecord.rate": "0x10",
				"pathrecord.packetlifetimeselector": "0x03",
				"pathrecord.packetlifetime":         "0x12", "pathrecord.preference": "0x03"}},
		{AttrMCMemberRecord, &MCMemberRecord{MGID: ib.GID{0: 0xff, 1: 0x12, 15: 7}, PortGID: gid(3), QKey: 0x0b1b,
			MLID: 0xc001, MTU: Selected{Exactly, 5},
			TClass: 1, PKey: 0xffff, Rate: Selected{GreaterThan, 3}, Life: Selected{Exactly, 19}, SL: 2,
			FlowLabel: 0x54321, HopLimit: 8, Scope: 2, Join: 5, ProxyJoin: true},
			map[string]string{"mcmemberrecord.mgid": "ff12::7", "mcmemberrecord.portgid": "fe80::3",
				"mcmemberrecord.q_key": "0x00000b1b", "mcmemberrecord.mlid": "0xc001",
				"mcmemberrecord.mtuselector": "0x02", "mcmemberrecord.mtu": "0x05",
				"mcmemberrecord.tclass": "0x01",
				"mcmemberrecord.p_key":  "0xffff", "mcmemberrecord.rate": "0x03",
				"mcmemberrecord.packetlifetime": "0x13", "mcmemberrecord.hoplimit": "0x08",
				"mcmemberrecord.scope":     "0x02",
				"mcmemberrecord.joinstate": "0x05", "mcmemberrecord.proxyjoin": "0x01"}},
		{AttrInformInfoRecord, &InformInfoRecord{Subscriber: gid(4), Enum: 2,
			Info: InformInfo{GID: gid(5), LIDBegin: 6, LIDEnd: 7, Generic: 1, Subscribe: 1,
				Type: 4, Trap: 128, QPN: 0x123456, RespTime: 18, Producer: 2}},
			map[string]string{"informinforecord.subscribergid": "fe80::4", "informinforecord.enum": "0x0002"}},
		{mad.AttrInformInfo, &InformInfo{GID: gid(5), LIDBegin: 6, LIDEnd: 7, Generic: 1, Subscribe: 1, Type: 4,
			Trap: 128, QPN: 0x123456, RespTime: 18, Producer: 2},
			map[string]string{"informinfo.gid": "fe80::5", "informinfo.lidrangebegin": "0x0006",
				"informinfo.lidrangeend": "0x0007", "informinfo.isgeneric": "0x01", "informinfo.subscribe": "0x01",
				"informinfo.type":               "0x0004",
				"informinfo.trapnumberdeviceid": "0x0080"}},
		{AttrLinkRecord, &LinkRecord{FromLID: 3, FromPort: 4, ToPort: 5, ToLID: 6},
			map[string]string{"linkrecord.fromlid": "0x0003", "linkrecord.fromport": "0x04",
				"linkrecord.toport": "0x05", "linkrecord.tolid": "0x0006"}},
		{AttrServiceRecord, &ServiceRecord{ID: 0x1122334455667788, GID: gid(9), PKey: 0x8002, Lease: 60},
			map[string]string{"linkrecord.serviceid": "0x1122334455667788", "linkrecord.servicegid": "fe80::9",
				"linkrecord.servicep_key": "0x8002", "linkrecord.servicelease": "0x0000003c"}},
	}
	fields := make(map[string]bool)
	var packets [][]byte
	for _, c := range cases {
		h := NewHeader(MethodGetTableResp, c.attribute, 0x99, 0x1f)
		h.RMPP = RMPP{Version: 1, Type: RMPPData, RespTime: 31, Flags: RMPPActive | RMPPFirst | RMPPLast, Segment: 1,
			Length: 84}
		h.SMKey, h.Offset = 0x77, 8
		c.want["rmpp.rmppversion"], c.want["rmpp.rmpptype"], c.want["rmpp.segmentnumber"] = "0x01", "0x01", "0x00000001"
		c.want["sa.smkey"], c.want["sa.attributeoffset"], c.want["sa.componentmask"] = "0x0000000000000077", "0x0008",
			"0x000000000000001f"
		d := h.Append(nil)
		d = append(d, c.record.Append(nil)...)
		packets = append(packets, append(d, make([]byte, mad.Size-len(d))...))
		for n := range c.want {
			fields[n] = true
		}
	}
	names := slices.Sorted(maps.Keys(fields))
	got := dissect(t, packets, names)
	for i, c := range cases {
		for j, n := range names {
			if want, ok := c.want[n]; ok && !same(got[i][j], want) {
				t.Errorf("%s: tshark reads %s as %q, want %q", Name(c.attribute), n, got[i][j], want)
			}
		}
	}
}

// same compares values, which may have more or fewer zeros in front.
func same(got, want string) bool {
	g, err1 := strconv.ParseUint(got, 0, 64)
	w, err2 := strconv.ParseUint(want, 0, 64)
	return got == want || err1 == nil && err2 == nil && g == w
}

// dissect returns the values of fields in datagrams.
func dissect(t *testing.T, datagrams [][]byte, fields []string) (all [][]string) {
	t.Helper()
	be, le := binary.BigEndian, binary.LittleEndian
	file := le.AppendUint32(nil, 0xa1b2c3d4)
	file = le.AppendUint16(le.AppendUint16(file, 2), 4)
	file = append(file, make([]byte, 8)...)
	file = le.AppendUint32(le.AppendUint32(file, 65535), 101) // LINKTYPE_RAW
	for _, d := range datagrams {
		// BTH of a UD SEND to QP 1, DETH from QP 1
		p := append([]byte{0x64, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0}, 0x80, 1, 0, 0, 0, 0, 0, 1)
		p = append(append(p, d...), 0, 0, 0, 0)
		udp := be.AppendUint16(be.AppendUint16(nil, 0xc000), 4791)
		udp = append(be.AppendUint16(udp, uint16(8+len(p))), 0, 0)
		p = append(udp, p...)
		ip := append(be.AppendUint16([]byte{0x45, 0}, uint16(20+len(p))), 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192,
			0, 2, 2)
		p = append(ip, p...)
		file = append(file, make([]byte, 8)...)
		file = append(le.AppendUint32(le.AppendUint32(file, uint32(len(p))), uint32(len(p))), p...)
	}
	name := filepath.Join(t.TempDir(), "sa.pcap")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-T", "fields", "-E", "separator=|"}
	for _, f := range fields {
		args = append(args, "-e", "infiniband."+f)
	}
	out := tshark.Read(t, name, args...)
	for line := range strings.Lines(out) {
		all = append(all, strings.Split(strings.TrimRight(line, "\n"), "|"))
	}
	if len(all) != len(datagrams) || len(all[0]) != len(fields) {
		t.Fatalf("tshark says %q", out)
	}
	return all
}
