/* SPDX-License-Identifier: Apache-2.0 */

/* The rsockets' part of calls.h. Sockets are file descriptors. Results are as the system's
 * calls have them, with a negative errno instead of -1; RS_WAIT: the socket blocks, and the call
 * has to wait. */
#define RS_WAIT (-4096)

CALL(int, rs_socket, (int domain, int type, int protocol))
CALL(int, rs_bind, (int fd, struct sockaddr *addr))
CALL(int, rs_listen, (int fd, int backlog))
CALL(int, rs_accept, (int fd))
CALL(int, rs_connect, (int fd, struct sockaddr *addr))
CALL(int, rs_shutdown, (int fd, int how))
CALL(int, rs_close, (int fd, int keep)) /* keep: the number goes on to mean something else */
CALL(int, rs_dup, (int fd, int to)) /* to, which the system has duplicated, stands for the same socket */
CALL(int, rs_same, (int a, int b))
CALL(void, rs_exit, (void))
CALL(int, rs_name, (int fd, int peer, struct sockaddr_storage *addr, socklen_t *length))

/* Of the memory in iov, the first skip bytes are done already. */
CALL(ssize_t, rs_recv, (int fd, struct iovec *iov, int n, size_t skip, int flags, struct sockaddr_storage *from, socklen_t *length))
CALL(ssize_t, rs_send, (int fd, struct iovec *iov, int n, size_t skip, int flags, struct sockaddr *to))

CALL(int, rs_set_option, (int fd, int level, int name, void *value, socklen_t length))
CALL(int, rs_get_option, (int fd, int level, int name, void *value, socklen_t *length))
CALL(int, rs_fcntl, (int fd, int command, int value))

/* Ready events go to revents, 0 for descriptors that are no rsockets, of which rest is the number.
 * With a waker, an eventfd, each rsocket writes to it when it has news, until rs_disarm. */
CALL(int, rs_poll, (struct pollfd *fds, int n, int waker, int *rest))
CALL(void, rs_split, (struct pollfd *fds, int n, struct pollfd *others)) /* others: fds, but -1 for rsockets */
CALL(void, rs_disarm, (struct pollfd *fds, int n, int waker))

/* For epoll: how many of the list have events, up to room, beginning at first. more: there are others. */
CALL(int, rs_watch, (struct rj_watch *list, int n, int first, int room, int waker, int *more))
CALL(void, rs_unwatch, (int fd, int waker))

CALL(int64_t, rs_iomap, (int fd, void *buf, size_t length, int prot, int64_t offset))
CALL(int, rs_iounmap, (int fd, void *buf, size_t length))
CALL(ssize_t, rs_iowrite, (int fd, void *buf, size_t length, int64_t offset, int flags))
