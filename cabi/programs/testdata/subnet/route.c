// SPDX-License-Identifier: Apache-2.0
//
// Resolves an address, and says what librdmacm has found out of the path there.

#include <arpa/inet.h>
#include <stdio.h>
#include <rdma/rdma_cma.h>

static void print_gid(const char *name, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	printf("%s %s\n", name, inet_ntop(AF_INET6, gid, text, sizeof text));
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdma_cm_id *id;
	struct ibv_sa_path_rec *path;

	if (argc != 2 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 10000)) {
		perror("rdma_resolve_addr");
		return 1;
	}
	print_gid("sgid", &id->route.addr.addr.ibaddr.sgid);
	print_gid("dgid", &id->route.addr.addr.ibaddr.dgid);
	printf("paths before the route is resolved: %d\n", id->route.num_paths);
	if (rdma_resolve_route(id, 10000)) {
		perror("rdma_resolve_route");
		return 1;
	}
	path = id->route.path_rec;
	if (id->route.num_paths != 1 || !path)
		return 1;
	print_gid("path sgid", &path->sgid);
	print_gid("path dgid", &path->dgid);
	printf("slid %d dlid %d sl %d pkey %#x mtu %d\n", ntohs(path->slid), ntohs(path->dlid), path->sl, ntohs(path->pkey), path->mtu);
	return rdma_destroy_id(id) ? 1 : 0;
}
