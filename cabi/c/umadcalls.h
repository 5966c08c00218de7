/* SPDX-License-Identifier: Apache-2.0 */

/* Management datagrams. Ports are known by their file descriptors. Results are 0 or an errno unless the line
 * says otherwise. */
CALL(int, umad_ca, (char *name, struct rj_umad_ca *ca)) /* without its ports; *name 0: the first one */
CALL(int, umad_port, (char *name, int num, struct rj_umad_port *port, uint16_t *pkeys, int room)) /* num 0: the first that is active */
CALL(int, umad_open, (char *name, int num, int *fd))
CALL(int, umad_close, (int fd))
CALL(int, umad_register, (int fd, int class, int version, int rmpp, uint64_t *methods, int *agent))
CALL(int, umad_unregister, (int fd, int agent))
CALL(int, umad_send, (int fd, struct rj_umad *mad, int length))
CALL(int, umad_recv, (int fd, struct rj_umad *mad, int *length)) /* EAGAIN: there is none; ENOSPC: length is too small */
