// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// calls are the errors that calls return: sentinels in Go, errno in C programs. The texts of packages cm and
// infiniband are written out, as this package needs nothing else of them; a test compares them.
func calls() (all []Entry) {
	for _, e := range []struct {
		text      string
		errno     syscall.Errno // of C programs, 0 for none
		errnoName string
		explained
	}{
		{verbs.ErrBusy.Error(), syscall.EBUSY, "EBUSY",
			explained{"verbs.ErrBusy", "An object cannot be closed, or changed, while something else uses it.",
				because("Objects were closed in the wrong order. Close queue pairs first, then completion queues, windows, regions and address handles, then protection domains, then the device.",
					"A queue pair is still attached to a multicast group: detach it first.",
					"A service ID or management class belongs to another process of this address.")}},
		{verbs.ErrClosed.Error(), syscall.EINVAL, "EINVAL",
			explained{"verbs.ErrClosed", "The object was closed before the call, or during it.",
				because("Another goroutine closed it. Stop the goroutines that use an object, then close it.",
					"The device was closed, and with it everything that it had opened.")}},
		{verbs.ErrInvalid.Error(), syscall.EINVAL, "EINVAL",
			explained{"verbs.ErrInvalid",
				"An argument is wrong. The rest of the message names it, and says what is allowed.",
				because("A value is larger than the device's limit: ramjet devices -v DEVICE prints the limits.",
					"An attribute that this change of state needs is missing (IBTA 11.2.5.2).",
					"C programs get EINVAL and no text, and for a call in the wrong state, too: ramjet explain EINVAL lists what it can be.")}},
		{verbs.ErrNotSupported.Error(), syscall.EOPNOTSUPP, "EOPNOTSUPP",
			explained{"verbs.ErrNotSupported", "This kind of device does not have the operation or the option.",
				because(
					"The fabric does not have it: iWARP has no UD queue pairs, shared memory has no packets to record.",
					"Ask Device.Query or ramjet devices -v DEVICE what the device has, or use another kind of device.")}},
		{verbs.ErrQueueFull.Error(), syscall.ENOMEM, "ENOMEM",
			explained{"verbs.ErrQueueFull", "A send or receive queue has no room for another work request.",
				because("The program posts faster than it polls. Poll the completion queue, then post again.",
					"No work request was signaled. An unsignaled one keeps its place until a later, signaled one has completed: signal at least one for each length of the queue.",
					"The queue is too short: raise MaxSendWR or MaxRecvWR (max_send_wr, max_recv_wr) when the queue pair is created.")}},
		{verbs.ErrNoMemory.Error(), syscall.ENOMEM, "ENOMEM",
			explained{"verbs.ErrNoMemory", "The host has no memory left, or the device no more objects of this kind.",
				because("Objects are created and never closed: ramjet stat resource counts them for each process.",
					"The device's limit is reached: ramjet devices -v DEVICE prints it.")}},
		{verbs.ErrState.Error(), syscall.EINVAL, "EINVAL",
			explained{"verbs.ErrState",
				"The queue pair, or the id of a connection, is in a state in which the call is not allowed.",
				because("post_send before the queue pair is in RTS, or post_recv while it is in RESET.",
					"A state was left out: a queue pair goes from RESET to INIT, RTR and RTS.",
					"The queue pair has failed and is in ERR: look for its first completion that is not a success or a flush.")}},
		{verbs.ErrOverflow.Error(), syscall.EINVAL, "EINVAL",
			explained{"verbs.ErrOverflow", "More completions came than the completion queue has entries. Some are lost, and its queue pairs are in ERR.",
				because("The queue has fewer entries than its queue pairs can have work requests outstanding: create it with the sum of their send and receive queues.",
					"The program polls too seldom.")}},
		{verbs.ErrPermission.Error(), syscall.EPERM, "EPERM",
			explained{"verbs.ErrPermission", "The process, or the region, does not have the right that the call needs.",
				because("Memory is to be written to that was registered without LocalWrite.",
					"A device of the kernel (kernel:) needs access to /dev/infiniband, or more locked memory: see ulimit -l.")}},
		{verbs.ErrFault.Error(), syscall.EFAULT, "EFAULT",
			explained{"verbs.ErrFault",
				"Not all of the memory is mapped, or it is mapped read-only and the region is to be written to.",
				because("The address or the length is wrong, or the memory was unmapped.",
					"A file or a string constant is mapped read-only: register it without LocalWrite and the remote rights to write.")}},
		{verbs.ErrNotFound.Error(), syscall.ENOENT, "ENOENT",
			explained{"verbs.ErrNotFound", "Nothing has this name, number or index.",
				because("A row of the GID table that is empty: ramjet devices -v DEVICE prints the table.",
					"A multicast group that was not joined, or a connection that has ended.",
					"A device that is not here: ramjet devices lists those that are.")}},
		{verbs.ErrPinLimit.Error(), syscall.ENOMEM, "ENOMEM",
			explained{"verbs.ErrPinLimit",
				"Registering the memory would pin more than the process may pin (RLIMIT_MEMLOCK).",
				because("The limit is low by default, often 8 MiB. Raise it: ulimit -l unlimited, LimitMEMLOCK=infinity in systemd's unit, --ulimit memlock=-1 for a container.",
					"The memory need not be pinned: see docs/memory.md for regions that are not.")}},
		{"no answer in time", syscall.ETIMEDOUT, "ETIMEDOUT",
			explained{"cm.ErrTimeout", "The peer, or the subnet manager, did not answer in time.",
				because("The address is wrong, or the host is down.",
					"No program there has this kind of device open: a roce: device does not answer an iwarp: one.",
					"A firewall drops the packets: RoCEv2 is UDP port 4791; iWARP is TCP, at the listener's port.",
					"On InfiniBand, no subnet manager runs.", "ramjet doctor HOST looks at the way there.")}},
		{"the connection has ended", syscall.ENOTCONN, "ENOTCONN",
			explained{"cm.ErrDisconnected", "The connection has ended, and the call needs one.",
				because("The peer disconnected, or its process ended: its own output says why.",
					"This side disconnected or closed the id before.",
					"A work request failed, and the connection ended with it: the first completion with an error, or QP.Failure, says why.")}},
		{"address and port are in use", syscall.EADDRINUSE, "EADDRINUSE",
			explained{"cm.ErrAddrInUse", "Another listener has this address and port.",
				because("The program runs already, perhaps in another process of this address: ramjet stat cm_id lists listeners.",
					"Choose another port, or port 0 for any that is free.")}},
		{"no such address", syscall.EADDRNOTAVAIL, "EADDRNOTAVAIL",
			explained{"cm.ErrNoAddr", "The address, or the name, is none that can be used here.",
				because("The name does not resolve, or is misspelled.",
					"The local address is not one of this host, or not the device's: ramjet devices lists them.",
					"One address is IPv4 and the other IPv6.",
					"On InfiniBand, no adapter of the fabric has the address: ramjet fabric show lists them.")}},
		{"connection rejected", syscall.ECONNREFUSED, "ECONNREFUSED",
			explained{"cm.RejectError", "The peer's host answered, and did not accept the connection. The message ends with the reason, which is explained by itself.",
				because("Nobody listens there (invalid service ID): start the server first, and compare port, address and kind of device.",
					"The server's program rejected it (consumer reject): its output, or the private data, says why.",
					"The listener's backlog is full (no resources): try again later.")}},
		{"infiniband: no fabric runs here", 0, "",
			explained{"infiniband.ErrNoFabric",
				"An infiniband: device is an adapter of a fabric that ramjet fabric runs, and none runs here.",
				because("Start one: ramjet fabric --fat-tree 4,2.",
					"It runs under a name, which the device has to have too: infiniband:host-1?fabric=NAME.",
					"It belongs to another user, or to another container.")}},
	} {
		var also []string
		if e.errno != 0 {
			also = []string{e.errnoName, e.errno.Error()}
		}
		all = append(all, Entry{Call, e.name, int(e.errno), e.text, also, e.means, e.causes})
	}
	return all
}

// connectionEvents are the events of the connection manager, by librdmacm's names, in its order.
func connectionEvents() []Entry {
	return entries(ConnectionEvent, []explained{
		{"RDMA_CM_EVENT_ADDR_RESOLVED",
			"The device and the peer's address are found. No error: resolve the route next.", nil},
		{"RDMA_CM_EVENT_ADDR_ERROR", "The address could not be resolved.",
			noDeviceFor},
		{"RDMA_CM_EVENT_ROUTE_RESOLVED", "The path to the peer is known. No error: create the queue pair and connect.",
			nil},
		{"RDMA_CM_EVENT_ROUTE_ERROR", "The path to the peer could not be found.",
			noRoute},
		{"RDMA_CM_EVENT_CONNECT_REQUEST", "A peer requests a connection. No error: accept or reject it on the new id.",
			nil},
		{"RDMA_CM_EVENT_CONNECT_RESPONSE", "The peer accepted, and the program has the queue pair to itself: move it to RTS, then call rdma_establish.", nil},
		{"RDMA_CM_EVENT_CONNECT_ERROR", "The connection could not be established, for a reason on this side.",
			[]Cause{
				{"The queue pair could not be moved to RTR or RTS: its attributes do not fit the device.",
					"the errno of the event; ibv_devinfo -v",
					"Smaller responder_resources and initiator_depth; the right GID."},
				{"The device was closed or removed meanwhile.", "dmesg | tail", "Open it again."},
			}},
		{"RDMA_CM_EVENT_UNREACHABLE", "The peer does not answer.",
			[]Cause{
				{"The address is wrong, the host is down, or no process there has the device open.",
					"ping PEER; rdma link at the peer; ramjet doctor PEER",
					"Give the address of the peer's RDMA interface."},
				{"A firewall drops the packets.", "nft list ruleset; tcpdump -i INTERFACE udp port 4791, at the peer",
					"Admit UDP port 4791 (RoCEv2) or the TCP port (iWARP)."},
				{"The kinds of device differ: RoCE on one side, iWARP on the other; or RoCE v1 and v2.",
					"rdma link -d at both ends; ramjet doctor", "One kind on both; cma_roce_mode for librdmacm."},
				{"The server's program does not take its events, and so never accepts.", "its stack: gdb -p PID",
					"Call rdma_get_cm_event in a loop."},
			}},
		{"RDMA_CM_EVENT_REJECTED", "The peer rejected the connection. The event's status is the reason: ramjet explain rej STATUS says what it means.",
			[]Cause{
				{"Nobody listens at that port (8 on InfiniBand and RoCE; -111, ECONNREFUSED, over iWARP).",
					"rdma resource show cm_id; ss -ltn, at the peer",
					"Start the server first, with the same port and port space."},
				{"The peer's program rejected it (28).", "its output; the private data of the event", "As that says."},
				{"The peer still has a connection of an earlier process (10), or no room (3).",
					"rdma resource show qp, at the peer", "Try again; a longer backlog."},
			}},
		{"RDMA_CM_EVENT_ESTABLISHED", "The connection is established. No error.", nil},
		{"RDMA_CM_EVENT_DISCONNECTED", "The connection has ended.",
			[]Cause{
				{"One of the two programs disconnected, or ended.", "both programs' output",
					"No error, if it was meant so."},
				{"The queue pair failed, and the peer let go.", "the first completion with an error, at either end",
					"ramjet explain its status."},
			}},
		{"RDMA_CM_EVENT_DEVICE_REMOVAL", "The device is gone: destroy the id.",
			because("The device was closed while ids were bound to it.", "An adapter, or its driver, was removed.")},
		{"RDMA_CM_EVENT_MULTICAST_JOIN", "The multicast group is joined. No error.", nil},
		{"RDMA_CM_EVENT_MULTICAST_ERROR", "The multicast group could not be joined, or was lost.",
			because("On InfiniBand, the subnet manager refused it, or it was restarted: join again.")},
		{"RDMA_CM_EVENT_ADDR_CHANGE", "The address of the peer's, or of this, interface has changed: resolve it again. Ramjet's devices never report it.", nil},
		{"RDMA_CM_EVENT_TIMEWAIT_EXIT",
			"The connection's numbers can be used again. No error: the queue pair may be destroyed or reused.", nil},
	}, func(n int) string {
		return [...]string{"address resolved", "address error", "route resolved", "route error", "connect request",
			"connect response", "connect error", "unreachable", "rejected", "established", "disconnected",
			"device removal", "multicast join", "multicast error",
			"address change", "time wait exit"}[n]
	})
}
