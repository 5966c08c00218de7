// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// hardwareOnly marks errors of the specification that devices in software have no use for.
const hardwareOnly = "Ramjet's devices never report it."

// statuses are those of completions (IBTA 11.6.2).
func statuses() []Entry {
	return entries(Status, []explained{
		verbs.StatusSuccess: {"IBV_WC_SUCCESS", "The work request was carried out.", nil},
		verbs.StatusLocalLengthError: {"IBV_WC_LOC_LEN_ERR", "A length does not fit: a receive is shorter than what arrived, a send is longer than the transport takes, or an atomic's list has not 8 bytes. The queue pair is in ERR.",
			[]Cause{
				{"A receive is smaller than the peer's SEND. Both sides have to agree on the largest message.", "the length of the receives here, and of the SENDs there", "Post longer receives, or send in pieces."},
				{"On UD, a receive has no room for the 40 bytes of the GRH before the message.", "the receive's length on UD", "40 bytes more."},
				{"On UD, the message is longer than the path MTU.", "ibv_devinfo | grep mtu", "Send at most one MTU."},
			}},
		verbs.StatusLocalQPOperationError: {"IBV_WC_LOC_QP_OP_ERR", "The queue pair could not carry out the work request, though the request itself was well-formed. " + hardwareOnly,
			[]Cause{
				{"The work request does not fit the state or the type of the queue pair, or a driver made it wrongly.", "the opcode and flags of the work request; rdma resource show qp", "Take an operation that the type has; update driver and firmware."},
				{"A limit of the queue pair: too many entries, or more inline data than it was created with.", "the ibv_qp_cap that creation returned", "Stay within it."},
			}},
		verbs.StatusLocalEECOperationError: {"IBV_WC_LOC_EEC_OP_ERR", "An error of an end-to-end context, of reliable datagrams. " + hardwareOnly, nil},
		verbs.StatusLocalProtectionError: {"IBV_WC_LOC_PROT_ERR", "An entry of the work request's own list names memory that it may not use. Nothing is wrong at the peer.",
			[]Cause{
				{"The address and length are not within the region of the lkey.", "ramjet stat mr; addr and length of the list against the region", "Register all of it, or correct the list."},
				{"The lkey is of a region that was deregistered, or of another protection domain than the queue pair's; or the rkey was used in its place.", "which ibv_reg_mr the lkey is from", "Keep the region until the completion; one protection domain."},
				{"The memory is a GPU's, and the NIC does not reach it (vendor error 0x51 of mlx5 with GPUDirect).", "lsmod | grep nvidia_peermem; lspci -vv | grep ACSCtl", "modprobe nvidia_peermem; turn ACS off; NCCL_NET_GDR_LEVEL=0 to compare."},
				{"The region of a receive, a READ or an atomic does not allow local write.", "the access flags", "IBV_ACCESS_LOCAL_WRITE."},
				{"The memory was unmapped after it was registered.", "cat /proc/PID/maps", "Deregister first, then unmap."},
			}},
		verbs.StatusWRFlushError: {"IBV_WC_WR_FLUSH_ERR", "The work request was not carried out because its queue pair is in ERR. It is a consequence, never the cause.",
			[]Cause{
				{"Another work request of this queue pair failed before it.", "the first completion with another status, also in the other completion queue", "Mend that: ramjet explain its status."},
				{"The connection was ended: by this program, by the peer, or by the connection manager.", "RDMA_CM_EVENT_DISCONNECTED; the peer's output", "No error, if it was meant so."},
				{"The peer sent something that was refused.", "IBV_EVENT_QP_ACCESS_ERR or IBV_EVENT_QP_REQ_ERR among the asynchronous events; ramjet stat qp", "As for IBV_WC_REM_ACCESS_ERR, from the responder's side."},
			}},
		verbs.StatusMWBindError: {"IBV_WC_MW_BIND_ERR", "A memory window could not be bound or a key not be invalidated.",
			because("The region does not allow windows (IBV_ACCESS_MW_BIND), or less than the window is to allow.",
				"The range is not within the region.", "The window is of another type, or bound already (type 2).")},
		verbs.StatusBadResponseError: {"IBV_WC_BAD_RESP_ERR", "A response of the peer did not fit the request.",
			because("Another queue pair answers: numbers or PSNs of an earlier connection were used.", "The peer's implementation is faulty.")},
		verbs.StatusLocalAccessError: {"IBV_WC_LOC_ACCESS_ERR", "A WRITE with immediate data arrived for memory that does not allow it. Ramjet's devices report it at the requester instead.", nil},
		verbs.StatusRemoteInvalidRequestError: {"IBV_WC_REM_INV_REQ_ERR", "The peer's queue pair took the request for invalid, apart from memory. Both queue pairs are in ERR.",
			[]Cause{
				{"A SEND is longer than the receive that the peer posted.", "the peer's completion: a local length error", "Post longer receives, or send in pieces."},
				{"The peer's queue pair does not allow the operation: remote write, read or atomic.", "qp_access_flags at INIT, at the peer; ramjet stat qp there", "Add the right to qp_access_flags."},
				{"More READs and atomics in flight than the peer's max_dest_rd_atomic.", "max_rd_atomic here, max_dest_rd_atomic there", "max_rd_atomic no larger than the peer's."},
				{"The address of an atomic is not a multiple of 8.", "the remote address", "Align it."},
			}},
		verbs.StatusRemoteAccessError: {"IBV_WC_REM_ACCESS_ERR", "The peer refused the access to its memory. Both queue pairs are in ERR.",
			[]Cause{
				{"The rkey is stale or another's: the region was deregistered, registered anew, or the key was sent in another byte order.", "ramjet stat mr at the peer; the key that this side has", "Send the key again after each registration, as a 32-bit number in network order."},
				{"The address and length are not within the region of the rkey. Addresses are the peer's own.", "ramjet stat qp at the peer: it says which bytes", "Correct address or length; bytes count from 0 only in a zero-based region."},
				{"The region, or the peer's queue pair, does not allow it: remote write, read or atomic.", "access of ibv_reg_mr, qp_access_flags at INIT, at the peer", "IBV_ACCESS_REMOTE_WRITE, _READ, _ATOMIC on both."},
				{"The region is of another protection domain than the peer's queue pair.", "the peer's program", "One protection domain for both."},
			}},
		verbs.StatusRemoteOperationError: {"IBV_WC_REM_OP_ERR", "The peer could not carry out the request, for a reason of its own.",
			[]Cause{
				{"The peer's receive names memory that it may not write to.", "the peer's completion: a local protection error", "As for IBV_WC_LOC_PROT_ERR, at the peer."},
				{"The peer's memory was unmapped, or is a GPU's that its NIC does not reach.", "dmesg and the program at the peer", "Keep it mapped; nvidia_peermem, ACS off."},
				{"The peer's adapter failed.", "dmesg | tail, at the peer", "As that says."},
			}},
		verbs.StatusRetryExceeded: {"IBV_WC_RETRY_EXC_ERR", "No acknowledgement came, though the request was sent again as often as retry_cnt says.",
			retryCauses},
		verbs.StatusRNRRetryExceeded: {"IBV_WC_RNR_RETRY_EXC_ERR", "The peer had no receive posted, and answered each try with an RNR NAK (receiver not ready), as often as rnr_retry says.",
			[]Cause{
				{"The peer posts its receives too late, or too few.", "ramjet stat qp at the peer; when it calls ibv_post_recv", "Post them before the connection is established, and one for each that completes."},
				{"The peer's program does not poll, and so posts no new ones.", "top; gdb -p PID, at the peer", "Poll, or use a thread for it; a shared receive queue with a limit event."},
				{"rnr_retry is 0 to 6. With 7 the requester never gives up.", "rnr_retry at RTS, or rnr_retry_count of rdma_connect", "7, and min_rnr_timer 12 or more."},
			}},
		verbs.StatusLocalRDDViolationError: {"IBV_WC_LOC_RDD_VIOL_ERR", "A violation of a reliable datagram domain. " + hardwareOnly, nil},
		verbs.StatusRemoteInvalidRDRequest: {"IBV_WC_REM_INV_RD_REQ_ERR", "The peer refused a reliable datagram. " + hardwareOnly, nil},
		verbs.StatusRemoteAbortedError: {"IBV_WC_REM_ABORT_ERR", "The operation was aborted at the peer. " + hardwareOnly,
			because("On UD and reliable datagrams, the peer's queue pair went away.")},
		verbs.StatusInvalidEECN:     {"IBV_WC_INV_EECN_ERR", "The number of an end-to-end context does not exist. " + hardwareOnly, nil},
		verbs.StatusInvalidEECState: {"IBV_WC_INV_EEC_STATE_ERR", "An end-to-end context is in another state. " + hardwareOnly, nil},
		verbs.StatusFatalError: {"IBV_WC_FATAL_ERR", "The device failed in a way that it cannot recover from. " + hardwareOnly,
			because("The adapter or its driver was reset; the kernel's log has more.")},
		verbs.StatusResponseTimeoutError: {"IBV_WC_RESP_TIMEOUT_ERR", "A response did not come in time. " + hardwareOnly, because("The peer or the path to it is gone.")},
		verbs.StatusGeneralError:         {"IBV_WC_GENERAL_ERR", "An error that has no other status. " + hardwareOnly, because("The vendor_err of the completion says more.")},
	}, func(n int) string { return verbs.Status(n).String() })
}

// reasons are what verbs.QP.Failure and vendor_err say beyond a status.
func reasons() []Entry {
	return entries(Reason, []explained{
		verbs.ReasonNoKey: {"REASON_NO_KEY", "No region or window has this key on the side that checked it.",
			because("It was deregistered, unbound or invalidated before the request came.", "The key was sent in another byte order, or is that of another device or process.")},
		verbs.ReasonOtherOwner: {"REASON_OTHER_OWNER", "The key belongs to another protection domain, or is that of a type 2 window which is bound to another queue pair.",
			because("Region and queue pair were made from two protection domains.")},
		verbs.ReasonOutside: {"REASON_OUTSIDE", "The first or last byte of the range is not within the memory of the key.",
			because("A length that is too long by the offset.", "An offset in place of an address, or an address in a zero-based region.")},
		verbs.ReasonNoRight:    {"REASON_NO_RIGHT", "The key stands for the memory, but does not allow this access to it.", because("The region was registered without the flag.")},
		verbs.ReasonQPAccess:   {"REASON_QP_ACCESS", "The queue pair does not allow the operation, whatever the key does.", because("qp_access_flags lacked it when the queue pair went to INIT.")},
		verbs.ReasonMisaligned: {"REASON_MISALIGNED", "Atomics work on 8 bytes at an address that is a multiple of 8.", because("The offset within the region, or the region's start, is not.")},
		verbs.ReasonTooLong:    {"REASON_TOO_LONG", "The message is longer than the receive, or than the device takes.", because("The receive is smaller than the peer's SEND.")},
		verbs.ReasonTooMany:    {"REASON_TOO_MANY", "The peer had more READs and atomics in flight than max_dest_rd_atomic allows.", because("Its max_rd_atomic is larger.")},
		verbs.ReasonUnmapped:   {"REASON_UNMAPPED", "The memory of the key was there when it was registered, and is not mapped any more.", because("munmap, or a file that became shorter.", "The region ended during the operation.")},
		verbs.ReasonNoAnswer:   {"REASON_NO_ANSWER", "No acknowledgement came, in spite of all retries.", because("The peer's process has ended, or packets do not reach it: see IBV_WC_RETRY_EXC_ERR.")},
		verbs.ReasonNotReady:   {"REASON_NOT_READY", "The peer had no receive posted, in spite of all retries.", because("The peer posts its receives too late, or too few: see IBV_WC_RNR_RETRY_EXC_ERR.")},
		verbs.ReasonPeerRefused: {"REASON_PEER_REFUSED", "The peer refused the request. Over RoCE and InfiniBand a NAK says no more than the status. Over iWARP and shared memory the queue pair's Failure here says which check refused it.",
			because("See the status of the completion, such as IBV_WC_REM_ACCESS_ERR.", "Which check refused it is in the log, in Failure and in ramjet stat qp at the peer.")},
		verbs.ReasonMalformed: {"REASON_MALFORMED", "A packet does not fit those before it.", because("A faulty peer, or PSNs of an earlier connection.")},
		verbs.ReasonNotEight: {"REASON_NOT_EIGHT", "An atomic operation, or an atomic WRITE, works on 8 bytes, and the list of the work request has more or fewer.",
			because("The list has to have 8 bytes: of an atomic operation they receive what the memory held before.")},
		verbs.ReasonPeerClosed: {"REASON_PEER_CLOSED", "The peer closed the connection, and what had not begun was flushed. No error, if the program expected it.",
			because("The peer's program ended, or destroyed its queue pair or id.")},
	}, func(n int) string { return verbs.Reason(n).String() })
}

// events are the asynchronous ones (IBTA 11.6.3).
func events() []Entry {
	return entries(Event, []explained{
		verbs.EventCQError: {"IBV_EVENT_CQ_ERR", "A completion queue overflowed: completions are lost, and its queue pairs go to ERR.",
			because("It has fewer entries than its queue pairs can have work requests outstanding.", "The program polls too seldom.")},
		verbs.EventQPFatal: {"IBV_EVENT_QP_FATAL", "A queue pair went to ERR, and no completion of its own tells why.", []Cause{
			{"The completion queue overflowed.", "IBV_EVENT_CQ_ERR beside it", "Create it with the sum of the queues that use it."},
			{"The program's work queue has something that the adapter cannot read, or a receive names memory that may not be written to.", "dmesg | tail -30; the work requests posted last", "Check addresses and keys of what was posted."},
			{"The adapter or its driver failed.", "dmesg | grep -iE 'mlx5|irdma|bnxt'; devlink health show", "Update the firmware; create the queue pair again."},
		}},
		verbs.EventQPRequestError: {"IBV_EVENT_QP_REQ_ERR", "The peer sent an invalid request; its completion is a remote invalid request error.", because("See IBV_WC_REM_INV_REQ_ERR. The queue pair's Failure says which check refused it.")},
		verbs.EventQPAccessError: {"IBV_EVENT_QP_ACCESS_ERR", "The peer requested an access that is not allowed; its completion is a remote access error.", []Cause{
			{"The peer used a key that has ended, or went beyond its region.", "ramjet stat qp, here: it says which check refused it", "See IBV_WC_REM_ACCESS_ERR."},
			{"The region or the queue pair does not allow it.", "access of ibv_reg_mr; qp_access_flags", "Add the right on both."},
		}},
		verbs.EventCommEstablished:  {"IBV_EVENT_COMM_EST", "The first packet arrived while the queue pair was in RTR. No error: it may go to RTS.", nil},
		verbs.EventSQDrained:        {"IBV_EVENT_SQ_DRAINED", "The send queue has drained in SQD, as was requested.", nil},
		verbs.EventPathMigrated:     {"IBV_EVENT_PATH_MIG", "The connection uses its alternate path. " + hardwareOnly, nil},
		verbs.EventPathMigrateError: {"IBV_EVENT_PATH_MIG_ERR", "The connection could not change to its alternate path. " + hardwareOnly, nil},
		verbs.EventDeviceFatal:      {"IBV_EVENT_DEVICE_FATAL", "The device failed as a whole. " + hardwareOnly, nil},
		verbs.EventPortActive:       {"IBV_EVENT_PORT_ACTIVE", "The port is active (again).", nil},
		verbs.EventPortError: {"IBV_EVENT_PORT_ERR", "The port is down. Queue pairs stay as they are until their retries run out.", []Cause{
			{"The interface was taken down, lost its link or its address.", "ip link; ethtool INTERFACE | grep Link; dmesg | grep -i link", "ip link set INTERFACE up; cable and transceiver."},
			{"On InfiniBand: a cable, a switch, or no subnet manager.", "ibstat; iblinkinfo; sminfo", "Plug it in; start opensm."},
		}},
		verbs.EventLIDChange:  {"IBV_EVENT_LID_CHANGE", "The subnet manager gave the port another LID. Connections by LID are lost.", nil},
		verbs.EventPKeyChange: {"IBV_EVENT_PKEY_CHANGE", "The port's partition table changed.", nil},
		verbs.EventSMChange:   {"IBV_EVENT_SM_CHANGE", "Another subnet manager has taken over.", nil},
		verbs.EventSRQError:   {"IBV_EVENT_SRQ_ERR", "A shared receive queue failed. " + hardwareOnly, nil},
		verbs.EventSRQLimitReached: {"IBV_EVENT_SRQ_LIMIT_REACHED", "Fewer receives are left in a shared receive queue than its limit: post more, and arm the limit again.",
			nil},
		verbs.EventQPLastWQEReached: {"IBV_EVENT_QP_LAST_WQE_REACHED", "A queue pair in ERR takes no more receives from its shared receive queue. It can be destroyed.", nil},
		verbs.EventClientReregister: {"IBV_EVENT_CLIENT_REREGISTER", "The subnet manager lost its registrations: join multicast groups again.", nil},
		verbs.EventGIDChange:        {"IBV_EVENT_GID_CHANGE", "The GID table changed: on Ethernet, an address of the interface came or went.", nil},
	}, func(n int) string { return verbs.EventType(n).String() })
}

// naks are the codes by which responders refuse (IBTA 9.7.5.2).
func naks() []Entry {
	return entries(NAK, []explained{
		ib.NAKPSNSequenceError: {"NAK_PSN_SEQUENCE", "The responder missed a packet: the requester sends again from there. Many of them mean loss.", because("Packets are dropped in the network or at the receiver: look at SEQ and RETR of ramjet stat statistic.")},
		ib.NAKInvalidRequest: {"NAK_INVALID_REQUEST", "The responder took the request for invalid. The requester completes with IBV_WC_REM_INV_REQ_ERR, which ramjet explain has more about.",
			because("The responder's queue pair does not allow the operation, an atomic is misaligned, or the message is longer than the receive.")},
		ib.NAKRemoteAccessError: {"NAK_REMOTE_ACCESS", "The responder refused the access to its memory. The requester completes with IBV_WC_REM_ACCESS_ERR, which ramjet explain has more about.",
			because("A key that has ended, a range beyond its memory, or a right that the region does not give: ramjet stat qp at the responder says which.")},
		ib.NAKRemoteOperationalError: {"NAK_REMOTE_OPERATIONAL", "The responder could not carry out the request, for a reason of its own. The requester completes with IBV_WC_REM_OP_ERR.",
			because("The responder's receive names memory that it may not write to.")},
		ib.NAKInvalidRDRequest: {"NAK_INVALID_RD_REQUEST", "Of reliable datagrams, which no device has any more.", nil},
	}, func(n int) string { return ib.NAKCode(n).String() })
}
