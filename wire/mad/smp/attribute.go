// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// The attributes of subnet management (section 14.2.5). Notice is [mad.AttrNotice].
const (
	AttrNodeDescription mad.Attribute = 0x0010
	AttrNodeInfo        mad.Attribute = 0x0011
	AttrSwitchInfo      mad.Attribute = 0x0012
	AttrGUIDInfo        mad.Attribute = 0x0014
	AttrPortInfo        mad.Attribute = 0x0015
	AttrPKeyTable       mad.Attribute = 0x0016
	AttrSLtoVL          mad.Attribute = 0x0017
	AttrVLArbitration   mad.Attribute = 0x0018
	AttrLinearTable     mad.Attribute = 0x0019
	AttrRandomTable     mad.Attribute = 0x001a
	AttrMulticastTable  mad.Attribute = 0x001b
	AttrSMInfo          mad.Attribute = 0x0020
	AttrVendorDiag      mad.Attribute = 0x0030
	AttrLedInfo         mad.Attribute = 0x0031
)

// AttributeName returns an attribute's name in section 14.2.5.
func AttributeName(a mad.Attribute) string {
	switch a {
	case mad.AttrNotice:
		return "Notice"
	case AttrNodeDescription:
		return "NodeDescription"
	case AttrNodeInfo:
		return "NodeInfo"
	case AttrSwitchInfo:
		return "SwitchInfo"
	case AttrGUIDInfo:
		return "GUIDInfo"
	case AttrPortInfo:
		return "PortInfo"
	case AttrPKeyTable:
		return "P_KeyTable"
	case AttrSLtoVL:
		return "SLtoVLMappingTable"
	case AttrVLArbitration:
		return "VLArbitrationTable"
	case AttrLinearTable:
		return "LinearForwardingTable"
	case AttrRandomTable:
		return "RandomForwardingTable"
	case AttrMulticastTable:
		return "MulticastForwardingTable"
	case AttrSMInfo:
		return "SMInfo"
	case AttrVendorDiag:
		return "VendorDiag"
	case AttrLedInfo:
		return "LedInfo"
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}
