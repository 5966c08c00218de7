// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"slices"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Components are the components of an attribute that a query may name, which stand one after the other
// from the record's start, each some bits long. The bits of a component mask count them (section 15.2.5).
type Components struct {
	name string
	len  int // of a record in bytes, without padding
	list []component
}

// component is a field of a record. Reserved fields count, too.
type component struct {
	name string
	bits int
}

// Len returns the length of a record in bytes, without padding.
func (c *Components) Len() int { return c.len }

// Stride returns how far records are apart in a table, in bytes.
func (c *Components) Stride() int { return (c.len + 7) &^ 7 }

// layouts has a row for each attribute that can be queried.
var layouts = map[mad.Attribute]*Components{
	AttrNodeRecord: {"NodeRecord", NodeRecordLen, []component{{"LID", 16}, {"Resv", 16}, {"BaseVersion", 8},
		{"ClassVersion", 8}, {"NodeType", 8}, {"NumPorts", 8}, {"SystemImageGUID", 64}, {"NodeGUID", 64},
		{"PortGUID", 64}, {"PartitionCap", 16}, {"DeviceID", 16}, {"Revision", 32}, {"LocalPortNum", 8},
		{"VendorID", 24}, {"NodeDescription", 64 * 8}}},
	AttrPortInfoRecord: {"PortInfoRecord", PortInfoRecordLen, []component{{"EndportLID", 16}, {"PortNum", 8},
		{"Options", 8}, {"M_Key", 64}, {"GidPrefix", 64}, {"LID", 16}, {"MasterSMLID", 16}, {"CapabilityMask", 32},
		{"DiagCode", 16}, {"M_KeyLeasePeriod", 16}, {"LocalPortNum", 8}, {"WidthEnabled", 8}, {"WidthSupported", 8},
		{"WidthActive", 8}, {"SpeedSupported", 4}, {"State", 4}, {"PhysicalState", 4}, {"DownDefaultState", 4},
		{"M_KeyProtectBits", 2}, {"Resv", 3}, {"LMC", 3}, {"SpeedActive", 4}, {"SpeedEnabled", 4},
		{"NeighborMTU", 4}, {"MasterSMSL", 4}, {"VLCap", 4}, {"InitType", 4}, {"VLHighLimit", 8},
		{"VLArbHighCap", 8}, {"VLArbLowCap", 8}, {"InitTypeReply", 4}, {"MTUCap", 4}, {"VLStallCount", 3},
		{"HOQLife", 5}, {"OperationalVLs", 4}, {"PartitionEnforcementInbound", 1},
		{"PartitionEnforcementOutbound", 1}, {"FilterRawInbound", 1}, {"FilterRawOutbound", 1},
		{"M_KeyViolations", 16}, {"P_KeyViolations", 16}, {"Q_KeyViolations", 16}, {"GUIDCap", 8},
		{"ClientReregister", 1}, {"TrapSuppression", 2}, {"SubnetTimeOut", 5}, {"Resv", 3}, {"RespTimeValue", 5},
		{"LocalPhyErrors", 4}, {"OverrunErrors", 4}, {"MaxCreditHint", 16}, {"Resv", 8},
		{"LinkRoundTripLatency", 24}, {"CapabilityMask2", 16}, {"ExtSpeedActive", 4}, {"ExtSpeedSupported", 4},
		{"Resv", 3}, {"ExtSpeedEnabled", 5}}},
	AttrSLtoVLRecord: {"SLtoVLMappingTableRecord", SLtoVLRecordLen, []component{{"LID", 16}, {"InputPortNum", 8},
		{"OutputPortNum", 8}}},
	AttrSwitchInfoRecord: {"SwitchInfoRecord", SwitchInfoRecordLen, []component{{"LID", 16}, {"Resv", 16},
		{"LinearFDBCap", 16}, {"RandomFDBCap", 16}, {"MulticastFDBCap", 16}, {"LinearFDBTop", 16},
		{"DefaultPort", 8}, {"McastPrimary", 8}, {"McastNotPrimary", 8}, {"LifeTime", 5}, {"PortStateChange", 1},
		{"OptimizedSLtoVL", 2}, {"LIDsPerPort", 16}, {"PartitionEnforcementCap", 16},
		{"InboundEnforcementCap", 1}, {"OutboundEnforcementCap", 1}, {"FilterRawInboundCap", 1},
		{"FilterRawOutboundCap", 1}, {"EnhancedPort0", 1}, {"Resv", 3}, {"Resv", 8}, {"MulticastFDBTop", 16}}},
	AttrLinearRecord: {"LinearForwardingTableRecord", LinearRecordLen, []component{{"LID", 16}, {"BlockNum", 16}}},
	AttrMulticastRecord: {"MulticastForwardingTableRecord", MulticastRecordLen, []component{{"LID", 16},
		{"Position", 4}, {"Resv", 3}, {"BlockNum", 9}, {"Resv", 32}}},
	AttrSMInfoRecord: {"SMInfoRecord", SMInfoRecordLen, []component{{"LID", 16}, {"Resv", 16}, {"GUID", 64},
		{"SM_Key", 64}, {"ActCount", 32}, {"Priority", 4}, {"State", 4}}},
	AttrLinkRecord: {"LinkRecord", LinkRecordLen, []component{{"FromLID", 16}, {"FromPort", 8}, {"ToPort", 8},
		{"ToLID", 16}}},
	AttrGUIDInfoRecord: {"GUIDInfoRecord", GUIDInfoRecordLen, slices.Concat([]component{{"LID", 16}, {"BlockNum", 8},
		{"Resv", 8}, {"Resv", 32}}, slices.Repeat([]component{{"GUID", 64}}, 8))},
	AttrServiceRecord: {"ServiceRecord", ServiceRecordLen, slices.Concat([]component{{"ServiceID", 64},
		{"ServiceGID", 128}, {"ServiceP_Key", 16}, {"Resv", 16}, {"ServiceLease", 32}, {"ServiceKey", 128},
		{"ServiceName", 64 * 8}}, slices.Repeat([]component{{"ServiceData8", 8}}, 16),
		slices.Repeat([]component{{"ServiceData16", 16}}, 8), slices.Repeat([]component{{"ServiceData32", 32}}, 4),
		slices.Repeat([]component{{"ServiceData64", 64}}, 2))},
	AttrPKeyRecord: {"P_KeyTableRecord", PKeyRecordLen, []component{{"LID", 16}, {"BlockNum", 16}, {"PortNum", 8}}},
	AttrPathRecord: {"PathRecord", PathRecordLen, []component{{"ServiceID 63:56", 8}, {"ServiceID 55:0", 56},
		{"DGID", 128}, {"SGID", 128}, {"DLID", 16}, {"SLID", 16}, {"RawTraffic", 1}, {"Resv", 3}, {"FlowLabel", 20},
		{"HopLimit", 8}, {"TClass", 8}, {"Reversible", 1}, {"NumbPath", 7}, {"P_Key", 16}, {"QoSClass", 12},
		{"SL", 4}, {"MTUSelector", 2}, {"MTU", 6}, {"RateSelector", 2}, {"Rate", 6}, {"PacketLifeTimeSelector", 2},
		{"PacketLifeTime", 6}}},
	AttrVLArbRecord: {"VLArbitrationTableRecord", VLArbRecordLen, []component{{"LID", 16}, {"OutputPortNum", 8},
		{"BlockNum", 8}}},
	AttrMCMemberRecord: {"MCMemberRecord", MCMemberRecordLen, []component{{"MGID", 128}, {"PortGID", 128},
		{"Q_Key", 32}, {"MLID", 16}, {"MTUSelector", 2}, {"MTU", 6}, {"TClass", 8}, {"P_Key", 16},
		{"RateSelector", 2}, {"Rate", 6}, {"PacketLifeTimeSelector", 2}, {"PacketLifeTime", 6}, {"SL", 4},
		{"FlowLabel", 20}, {"HopLimit", 8}, {"Scope", 4}, {"JoinState", 4}, {"ProxyJoin", 1}}},
	AttrInformInfoRecord: {"InformInfoRecord", InformInfoRecordLen, []component{{"SubscriberGID", 128},
		{"Enum", 16}, {"Resv", 48}, {"GID", 128}, {"LIDRangeBegin", 16}, {"LIDRangeEnd", 16}, {"Resv", 16},
		{"IsGeneric", 8}, {"Subscribe", 8}, {"Type", 16}, {"TrapNumber", 16}, {"QPN", 24}, {"Resv", 3},
		{"RespTime", 5}, {"Resv", 8}, {"ProducerType", 24}}},
}

// Layout returns the components of an attribute, nil if it cannot be queried.
func Layout(a mad.Attribute) *Components { return layouts[a] }

// Covers reports whether all bits of a mask stand for a component.
func (c *Components) Covers(mask uint64) bool { return mask>>len(c.list) == 0 }

// Match reports whether a record has the values of a query in all components that are in the mask.
// Both are at least Len bytes long. Selectors of MTUs, rates and lifetimes are components like others
// here: the caller gives them their meaning, and takes them out of the mask.
func (c *Components) Match(mask uint64, query, record []byte) bool {
	at := 0
	for i, f := range c.list {
		if mask>>i&1 != 0 && !sameBits(query, record, at, f.bits) {
			return false
		}
		at += f.bits
	}
	return true
}

// sameBits compares width bits from bit at on. Components that are longer than a byte or cross one's
// border end or begin at a border of bytes.
func sameBits(a, b []byte, at, width int) bool {
	first, end := at/8, (at+width+7)/8
	if at%8 == 0 && width%8 == 0 {
		return bytes.Equal(a[first:end], b[first:end])
	}
	for i := first; i < end; i++ {
		mask := byte(0xff)
		if i == first {
			mask &= 0xff >> (at % 8)
		}
		if i == end-1 {
			mask &= 0xff << (end*8 - at - width)
		}
		if (a[i]^b[i])&mask != 0 {
			return false
		}
	}
	return true
}
