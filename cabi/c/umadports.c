/* SPDX-License-Identifier: Apache-2.0 */

/* The adapters and ports that programs see. */

#include "umad.h"

enum { max_devices = 64, max_pkeys = 1024 };

/* struct name is a link of a list of names, as programs get it. */
struct name {
	struct name *next;
	const char *name;
};

EXPORT int umad_init(void) { return 0; }
EXPORT int umad_done(void) { return 0; }

/* listed fills names with the names of devices, and returns how many there are. */
static int listed(char names[][RJ_UMAD_NAME], int room)
{
	struct rj_device_info *all = calloc(max_devices, sizeof *all);
	int i, n = all && rj() ? GO(rj()->devices(all, max_devices), 0) : -ENOMEM;

	if (n > max_devices)
		n = max_devices;
	if (n > room)
		n = room;
	for (i = 0; i < n; i++)
		snprintf(names[i], RJ_UMAD_NAME, "%.*s", RJ_UMAD_NAME - 1, all[i].name);
	free(all);
	return n;
}

EXPORT int umad_get_cas_names(char names[][RJ_UMAD_NAME], int max) { return listed(names, max); }

EXPORT struct name *umad_get_ca_device_list(void)
{
	char names[max_devices][RJ_UMAD_NAME];
	struct name *head = NULL, **end = &head;
	int i, n = listed(names, max_devices);

	if (n < 0)
		errno = -n;
	for (i = 0; i < n; i++) {
		struct name *one = calloc(1, sizeof *one + RJ_UMAD_NAME);

		if (!one)
			break;
		one->name = memcpy(one + 1, names[i], RJ_UMAD_NAME);
		*end = one;
		end = &one->next;
	}
	return head;
}

EXPORT void umad_free_ca_device_list(struct name *head)
{
	while (head) {
		struct name *next = head->next;

		free(head);
		head = next;
	}
}

/* The list is sorted by names. */
EXPORT int umad_sort_ca_device_list(struct name **head, size_t size)
{
	struct name *sorted = NULL, *one, **at;

	(void)size;
	while ((one = *head)) {
		*head = one->next;
		for (at = &sorted; *at && strcmp((*at)->name, one->name) <= 0; at = &(*at)->next)
			;
		one->next = *at;
		*at = one;
	}
	*head = sorted;
	return 0;
}

EXPORT int umad_release_port(struct rj_umad_port *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	port->npkeys = 0;
	return 0;
}

EXPORT int umad_get_port(const char *name, int num, struct rj_umad_port *port)
{
	uint16_t *pkeys = calloc(max_pkeys, sizeof *pkeys);
	int err = pkeys ? UTRY(umad_port((char *)(name ? name : ""), num, port, pkeys, max_pkeys)) : -ENOMEM;

	if (err)
		free(pkeys);
	else
		port->pkeys = pkeys;
	return err;
}

EXPORT int umad_release_ca(struct rj_umad_ca *ca)
{
	int i;

	for (i = 0; i < RJ_UMAD_PORTS; i++)
		if (ca->ports[i]) {
			umad_release_port(ca->ports[i]);
			free(ca->ports[i]);
			ca->ports[i] = NULL;
		}
	return 0;
}

EXPORT int umad_get_ca(const char *name, struct rj_umad_ca *ca)
{
	int i, err = UTRY(umad_ca((char *)(name ? name : ""), ca));

	for (i = 1; !err && i <= ca->nports && i < RJ_UMAD_PORTS; i++) {
		ca->ports[i] = calloc(1, sizeof *ca->ports[i]);
		err = ca->ports[i] ? umad_get_port(ca->name, i, ca->ports[i]) : -ENOMEM;
		if (err)
			umad_release_ca(ca);
	}
	return err;
}

/* Element 0 is for a switch's management port. */
EXPORT int umad_get_ca_portguids(const char *name, uint64_t *guids, int max)
{
	struct rj_umad_ca ca;
	int i, n, err = umad_get_ca(name, &ca);

	if (err)
		return err;
	n = ca.nports + 1;
	if (n > RJ_UMAD_PORTS)
		n = RJ_UMAD_PORTS;
	if (guids && max >= n)
		for (i = 0; i < n; i++)
			guids[i] = ca.ports[i] ? ca.ports[i]->guid : 0;
	umad_release_ca(&ca);
	return guids && max < n ? -ENOMEM : n;
}

/* A program that opens that path has the port report a subnet manager. There is no such path. */
EXPORT int umad_get_issm_path(const char *name, int num, char path[], int max)
{
	(void)name, (void)num, (void)path, (void)max;
	return -EOPNOTSUPP;
}
