/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: rsockets are not supported yet; every call says so. */

#include <errno.h>
#include <sys/types.h>

#define CALL(name) \
	__attribute__((visibility("default"))) long name(void); \
	__attribute__((visibility("default"))) long name(void) { errno = EOPNOTSUPP; return -1; }

CALL(rsocket) CALL(rbind) CALL(rlisten) CALL(raccept) CALL(rconnect) CALL(rshutdown) CALL(rclose)
CALL(rrecv) CALL(rrecvfrom) CALL(rrecvmsg) CALL(rsend) CALL(rsendto) CALL(rsendmsg) CALL(rread) CALL(rreadv)
CALL(rwrite) CALL(rwritev) CALL(rpoll) CALL(rselect) CALL(rgetpeername) CALL(rgetsockname) CALL(rsetsockopt)
CALL(rgetsockopt) CALL(rfcntl) CALL(riomap) CALL(riounmap) CALL(riowrite)
