// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import "github.com/ramjet-rdma/ramjet/verbs"

// Access flags that headers before rdma-core 47 do not have.
const (
	accessFlushGlobal     = 1 << 8
	accessFlushPersistent = 1 << 9
)

// accessFlags has one row for each access flag of C (enum ibv_access_flags). Package verbs has
// other bits for them.
var accessFlags = [...]struct {
	c     uint32
	verbs verbs.Access
	qp    bool // applies to queue pairs
}{
	{C.IBV_ACCESS_LOCAL_WRITE, verbs.LocalWrite, true},
	{C.IBV_ACCESS_REMOTE_WRITE, verbs.RemoteWrite, true},
	{C.IBV_ACCESS_REMOTE_READ, verbs.RemoteRead, true},
	{C.IBV_ACCESS_REMOTE_ATOMIC, verbs.RemoteAtomic, true},
	{C.IBV_ACCESS_MW_BIND, verbs.MWBind, false},
	{C.IBV_ACCESS_ZERO_BASED, verbs.ZeroBased, false},
	{C.IBV_ACCESS_ON_DEMAND, verbs.OnDemand, false},
	{C.IBV_ACCESS_HUGETLB, verbs.HugePages, false},
	{accessFlushGlobal, verbs.FlushGlobal, true},
	{accessFlushPersistent, verbs.FlushPersistent, true},
	{C.IBV_ACCESS_RELAXED_ORDERING, verbs.RelaxedOrdering, false},
}

// optionalAccess are the flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
const optionalAccess = 0x3ff << 20

// access converts the flags of a region or window. It returns false if one is unknown.
func access(flags uint32) (a verbs.Access, known bool) {
	for _, f := range accessFlags {
		if flags&f.c != 0 {
			a |= f.verbs
			flags &^= f.c
		}
	}
	return a, flags&^optionalAccess == 0
}

// qpAccess converts the flags of a queue pair. It returns false if one is unknown. Programs also
// give flags that concern regions; these are ignored.
func qpAccess(flags uint32) (a verbs.Access, known bool) {
	a, known = access(flags)
	for _, f := range accessFlags {
		if !f.qp {
			a &^= f.verbs
		}
	}
	return a, known
}

// accessOf converts back.
func accessOf(a verbs.Access) (flags C.uint) {
	for _, f := range accessFlags {
		if a&f.verbs != 0 {
			flags |= C.uint(f.c)
		}
	}
	return flags
}
