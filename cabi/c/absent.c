/* SPDX-License-Identifier: Apache-2.0 */

/* Abilities of a kernel's devices that these lack: files in sysfs, pinned memory, objects that processes
 * share, enhanced connection establishment. */

#include "ramjet.h"

#include <stdio.h>

/* These devices are not in sysfs. `ramjet run` redirects its paths, see sysfs.c. */
EXPORT const char *ibv_get_sysfs_path(void) { return "/sys"; }

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	FILE *f;
	size_t n;

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return -1;
	if (!(f = fopen(path, "re"))) {
		/* ibv_devinfo shows it: the one place for a device's address in the summary. */
		const char *name = strrchr(dir, '/');

		return name && !strcmp(file, "board_id") && rj() ? GO(rj()->board_id((char *)name + 1, buf, size), -1) : -1;
	}
	n = fread(buf, 1, size, f);
	fclose(f);
	if (n > 0 && buf[n - 1] == '\n')
		n--;
	if (n < size)
		buf[n] = 0;
	return (int)n;
}

/* Memory is not pinned, so fork needs no care; a child that opens devices loads a Go runtime of its own. */
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
EXPORT int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }

/* Objects cannot be shared between processes. */
EXPORT struct ibv_context *ibv_import_device(int fd) { (void)fd; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_pd(struct ibv_pd *pd) { (void)pd; }
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t h) { (void)pd, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_mr(struct ibv_mr *mr) { (void)mr; }
EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { (void)dm; }
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece) { (void)qp, (void)ece; return rj_errno(EOPNOTSUPP); }
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece) { (void)qp; memset(ece, 0, sizeof *ece); return rj_errno(EOPNOTSUPP); }
