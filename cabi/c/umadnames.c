/* SPDX-License-Identifier: Apache-2.0 */

/* Names of values in datagrams, for messages (IBTA 13.4). */

#include "umad.h"

#include <arpa/inet.h>

EXPORT const char *umad_class_str(uint8_t class)
{
	switch (class) {
	case 0x01:
	case 0x81: return "Subn";
	case 0x03: return "SubnAdm";
	case 0x04: return "Perf";
	case 0x05: return "BM";
	case 0x06: return "DevMgt";
	case 0x07: return "ComMgt";
	case 0x08: return "SNMP";
	}
	return (class >= 0x09 && class <= 0x0f) || (class >= 0x30 && class <= 0x4f) ? "Vendor" : "<unknown>";
}

EXPORT const char *umad_method_str(uint8_t class, uint8_t method)
{
	switch (method) {
	case 0x01: return "Get";
	case 0x02: return "Set";
	case 0x03: return "Send";
	case 0x05: return "Trap";
	case 0x06: return "Report";
	case 0x07: return "TrapRepress";
	case 0x81: return "GetResp";
	case 0x86: return "ReportResp";
	}
	if (class == 0x03)
		switch (method) {
		case 0x12: return "GetTable";
		case 0x13: return "GetTraceTable";
		case 0x14: return "GetMulti";
		case 0x15: return "Delete";
		case 0x92: return "GetTableResp";
		case 0x94: return "GetMultiResp";
		case 0x95: return "DeleteResp";
		}
	return "<unknown>";
}

EXPORT const char *umad_attribute_str(uint8_t class, uint16_t attribute)
{
	static const char *const subnet[] = { [0x10] = "NodeDescription", [0x11] = "NodeInfo", [0x12] = "SwitchInfo", [0x14] = "GUIDInfo",
		[0x15] = "PortInfo", [0x16] = "P_KeyTable", [0x17] = "SLtoVLMappingTable", [0x18] = "VLArbitrationTable",
		[0x19] = "LinearForwardingTable", [0x1b] = "MulticastForwardingTable", [0x20] = "SMInfo" };
	static const char *const admin[] = { [0x11] = "NodeRecord", [0x12] = "PortInfoRecord", [0x14] = "SwitchInfoRecord",
		[0x15] = "LinearForwardingTableRecord", [0x18] = "SMInfoRecord", [0x20] = "LinkRecord", [0x31] = "ServiceRecord",
		[0x33] = "P_KeyTableRecord", [0x35] = "PathRecord", [0x38] = "MCMemberRecord", [0x3a] = "MultiPathRecord" };
	const char *const *names = class == 0x03 ? admin : subnet;
	size_t n = class == 0x03 ? sizeof admin / sizeof *admin : sizeof subnet / sizeof *subnet, at = ntohs(attribute);

	switch (at) {
	case 1: return "ClassPortInfo";
	case 2: return "Notice";
	case 3: return "InformInfo";
	}
	return (class == 0x01 || class == 0x81 || class == 0x03) && at < n && names[at] ? names[at] : "<unknown>";
}

EXPORT const char *umad_common_mad_status_str(uint16_t status)
{
	static const char *const invalid[] = { "Success", "Bad version", "Method not supported", "Method/attribute not supported", "Reserved",
		"Reserved", "Reserved", "Invalid attribute or modifier" };
	int s = ntohs(status);

	return s & 1 ? "Busy" : s & 2 ? "Redirection required" : invalid[s >> 2 & 7];
}

EXPORT const char *umad_sa_mad_status_str(uint16_t status)
{
	static const char *const names[] = { "Success", "No resources", "Request invalid", "No records", "Too many records", "Invalid GID",
		"Insufficient components", "Request denied", "Priority suggested" };
	unsigned int s = ntohs(status) >> 8;

	return s < sizeof names / sizeof *names ? names[s] : "<unknown>";
}
