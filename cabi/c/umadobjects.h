/* SPDX-License-Identifier: Apache-2.0 */

/* Management datagrams, as programs of libibumad see them (ABI version 5 of the kernel's user_mad). */
#ifndef RAMJET_UMADOBJECTS_H
#define RAMJET_UMADOBJECTS_H

#include <stdint.h>

enum { RJ_UMAD_NAME = 20, RJ_UMAD_PORTS = 10 };

/* rj_umad_addr is where a datagram goes to or came from; fields of 16 or 32 bits are in network byte order,
 * but for the index of the P_Key. */
struct rj_umad_addr {
	uint32_t qpn, qkey;
	uint16_t lid;
	uint8_t sl, path_bits;
	uint8_t has_grh, gid_index, hop_limit, traffic_class;
	uint8_t gid[16];
	uint32_t flow_label;
	uint16_t pkey_index;
	uint8_t reserved[6];
};

/* rj_umad heads a datagram in a program's buffer. */
struct rj_umad {
	uint32_t agent, status; /* status: an errno; ETIMEDOUT: the datagram is a request without a response */
	uint32_t timeout_ms, retries;
	uint32_t length; /* with this head, where a buffer is too small */
	struct rj_umad_addr addr;
	uint8_t data[];
};

/* rj_umad_port describes a port; 64-bit fields are in network byte order, the other fields are not. */
struct rj_umad_port {
	char name[RJ_UMAD_NAME];
	int num;
	unsigned int lid, lmc, sm_lid, sm_sl, state, phys_state, rate; /* rate: Gbit/s */
	uint32_t capmask; /* network byte order */
	uint64_t gid_prefix, guid;
	unsigned int npkeys;
	uint16_t *pkeys;
	char link_layer[RJ_UMAD_NAME];
};

struct rj_umad_ca {
	char name[RJ_UMAD_NAME];
	unsigned int node_type;
	int nports;
	char fw_ver[20];
	char type[40];
	char hw_ver[20];
	uint64_t node_guid, system_guid;
	struct rj_umad_port *ports[RJ_UMAD_PORTS]; /* by number */
};

_Static_assert(sizeof(struct rj_umad) == 64, "the head of a datagram has 64 bytes");

#endif
