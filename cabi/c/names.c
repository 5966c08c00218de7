/* SPDX-License-Identifier: Apache-2.0 */

/* Names of constants, and conversions of rates. */

#include "ramjet.h"

#define NAME(names, i) ((unsigned)(i) < sizeof names / sizeof *names && names[i] ? names[i] : "unknown")

EXPORT const char *ibv_node_type_str(enum ibv_node_type t)
{
	static const char *const names[] = { [IBV_NODE_CA] = "InfiniBand channel adapter", [IBV_NODE_SWITCH] = "InfiniBand switch",
		[IBV_NODE_ROUTER] = "InfiniBand router", [IBV_NODE_RNIC] = "iWARP NIC", [IBV_NODE_USNIC] = "usNIC",
		[IBV_NODE_USNIC_UDP] = "usNIC UDP", [IBV_NODE_UNSPECIFIED] = "unspecified" };

	return NAME(names, t);
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state s)
{
	static const char *const names[] = { "no state change (NOP)", "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE",
		"PORT_ACTIVE_DEFER" };

	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "invalid state";
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type e)
{
	static const char *const names[] = { "CQ error", "local work queue catastrophic error",
		"invalid request local work queue error", "local access violation work queue error", "communication established",
		"send queue drained", "path migrated", "path migration request error", "local catastrophic error", "port active",
		"port error", "LID change", "PKey change", "SM change", "SRQ catastrophic error", "SRQ limit reached",
		"last WQE reached", "client reregistration", "GID table change", "WQ fatal" };

	return NAME(names, e);
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status s)
{
	static const char *const names[] = { "success", "local length error", "local QP operation error",
		"local EE context operation error", "local protection error", "Work Request Flushed Error",
		"memory management operation error", "bad response error", "local access error", "remote invalid request error",
		"remote access error", "remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
		"local RDD violation error", "remote invalid RD request", "aborted error", "invalid EE context number",
		"invalid EE context state", "fatal error", "response timeout error", "general error", "TM error",
		"TM software rendezvous" };

	return NAME(names, s);
}

/* Rates: the enum, the multiple of 2.5 Gbit/s, and Mbit/s (IBTA 9.11, table 224). */
static const struct {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 1, 2500 }, { IBV_RATE_5_GBPS, 2, 5000 }, { IBV_RATE_10_GBPS, 4, 10000 },
	{ IBV_RATE_20_GBPS, 8, 20000 }, { IBV_RATE_30_GBPS, 12, 30000 }, { IBV_RATE_40_GBPS, 16, 40000 },
	{ IBV_RATE_60_GBPS, 24, 60000 }, { IBV_RATE_80_GBPS, 32, 80000 }, { IBV_RATE_120_GBPS, 48, 120000 },
	{ IBV_RATE_14_GBPS, -1, 14062 }, { IBV_RATE_56_GBPS, -1, 56250 }, { IBV_RATE_112_GBPS, -1, 112500 },
	{ IBV_RATE_168_GBPS, -1, 168750 }, { IBV_RATE_25_GBPS, -1, 25781 }, { IBV_RATE_100_GBPS, -1, 103125 },
	{ IBV_RATE_200_GBPS, -1, 206250 }, { IBV_RATE_300_GBPS, -1, 309375 }, { IBV_RATE_28_GBPS, 11, 28125 },
	{ IBV_RATE_50_GBPS, 20, 53125 }, { IBV_RATE_400_GBPS, 160, 425000 }, { IBV_RATE_600_GBPS, 240, 637500 },
	{ IBV_RATE_800_GBPS, 320, 850000 }, { IBV_RATE_1200_GBPS, 480, 1275000 },
};

#define FIND(from, value, to, otherwise)                                  \
	do {                                                              \
		for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) \
			if (rates[i].from == (value))                     \
				return rates[i].to;                       \
		return otherwise;                                         \
	} while (0)

EXPORT int ibv_rate_to_mult(enum ibv_rate rate) { FIND(rate, rate, mult, -1); }
EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
	if (mult < 0) /* the table has -1 for rates that are no multiple */
		return IBV_RATE_MAX;
	FIND(mult, mult, rate, IBV_RATE_MAX);
}
EXPORT int ibv_rate_to_mbps(enum ibv_rate rate) { FIND(rate, rate, mbps, -1); }
EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps) { FIND(mbps, mbps, rate, IBV_RATE_MAX); }
