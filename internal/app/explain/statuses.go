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
		verbs.Success: {"IBV_WC_SUCCESS", "The work request was carried out.", nil},
		verbs.LocalLengthError: {"IBV_WC_LOC_LEN_ERR", "A length does not fit: a receive is shorter than what arrived, a send is longer than the transport takes, or an atomic's list has not 8 bytes. The queue pair is in ERR.",
			[]string{"A receive is smaller than the peer's SEND. Both sides have to agree on the largest message.",
				"On UD, a receive has no room for the 40 bytes of the GRH before the message.",
				"On UD, the message is longer than the path MTU."}},
		verbs.LocalQPOperationError: {"IBV_WC_LOC_QP_OP_ERR", "The queue pair could not carry out the work request, though the request itself was well-formed. " + hardwareOnly,
			[]string{"The work request does not fit the state or the type of the queue pair."}},
		verbs.LocalEECOperationError: {"IBV_WC_LOC_EEC_OP_ERR", "An error of an end-to-end context, of reliable datagrams. " + hardwareOnly, nil},
		verbs.LocalProtectionError: {"IBV_WC_LOC_PROT_ERR", "An entry of the work request's own list names memory that it may not use. Nothing is wrong at the peer.",
			[]string{"The address and length are not within the region of the lkey.",
				"The lkey is of a region that was deregistered, or of another protection domain than the queue pair's.",
				"The region of a receive, a READ or an atomic does not allow local write (IBV_ACCESS_LOCAL_WRITE).",
				"The rkey was used in place of the lkey; on some devices they differ.",
				"The memory was unmapped after it was registered."}},
		verbs.WRFlushError: {"IBV_WC_WR_FLUSH_ERR", "The work request was not carried out because its queue pair is in ERR. It is a consequence, never the cause.",
			[]string{"Another work request of this queue pair failed before it. Look for the first completion with another status, also in the other completion queue.",
				"The program or the connection manager moved the queue pair to ERR: the connection was ended.",
				"The peer sent something that was refused; an asynchronous event says so."}},
		verbs.MWBindError: {"IBV_WC_MW_BIND_ERR", "A memory window could not be bound or a key not be invalidated.",
			[]string{"The region does not allow windows (IBV_ACCESS_MW_BIND), or less than the window is to allow.",
				"The range is not within the region.", "The window is of another type, or bound already (type 2)."}},
		verbs.BadResponseError: {"IBV_WC_BAD_RESP_ERR", "A response of the peer did not fit the request.",
			[]string{"Another queue pair answers: numbers or PSNs of an earlier connection were used.", "The peer's implementation is faulty."}},
		verbs.LocalAccessError: {"IBV_WC_LOC_ACCESS_ERR", "A WRITE with immediate data arrived for memory that does not allow it. Ramjet's devices report it at the requester instead.", nil},
		verbs.RemoteInvalidRequestError: {"IBV_WC_REM_INV_REQ_ERR", "The peer's queue pair took the request for invalid, apart from memory. Both queue pairs are in ERR.",
			[]string{"The peer's queue pair does not allow the operation (qp_access_flags at INIT): remote write, read or atomic.",
				"The address of an atomic is not a multiple of 8.",
				"A SEND is longer than the receive that the peer posted.",
				"More READs and atomics in flight than the peer's max_dest_rd_atomic: max_rd_atomic has to be no larger."}},
		verbs.RemoteAccessError: {"IBV_WC_REM_ACCESS_ERR", "The peer refused the access to its memory. Both queue pairs are in ERR.",
			[]string{"The address and length are not within the region of the rkey. Addresses are the peer's, and bytes count from its region's start only if that is zero-based.",
				"The rkey is stale: the region was deregistered or registered anew, or the window unbound.",
				"The region does not allow it: remote write, read or atomic.",
				"The region is of another protection domain than the peer's queue pair.",
				"The rkey or address was sent in another byte order."}},
		verbs.RemoteOperationError: {"IBV_WC_REM_OP_ERR", "The peer could not carry out the request, for a reason of its own.",
			[]string{"The peer's receive names memory that it may not write to; its completion is a local protection error.",
				"The peer's memory was unmapped, or cannot be made persistent (FLUSH)."}},
		verbs.RetryExceeded: {"IBV_WC_RETRY_EXC_ERR", "No acknowledgement came, though the request was sent again as often as retry_cnt says.",
			[]string{"The peer's process has ended, or its queue pair was destroyed or went to ERR, or never reached RTR.",
				"The queue pair number, GID or LID of the peer is wrong, or it is connected to another queue pair.",
				"A firewall drops the packets: RoCEv2 is UDP port 4791.",
				"The path MTU is larger than what the network carries: small messages pass, long ones do not.",
				"timeout is too short for the network or for a busy peer: 14 is 67 ms, each step doubles it."}},
		verbs.RNRRetryExceeded: {"IBV_WC_RNR_RETRY_EXC_ERR", "The peer had no receive posted, and answered each try with an RNR NAK (receiver not ready), as often as rnr_retry says.",
			[]string{"The peer posts its receives too late, or too few: post them before the connection is established.",
				"The peer's program does not poll, and so posts no new ones.",
				"rnr_retry is 0 to 6. With 7 the requester never gives up."}},
		verbs.LocalRDDViolationError: {"IBV_WC_LOC_RDD_VIOL_ERR", "A violation of a reliable datagram domain. " + hardwareOnly, nil},
		verbs.RemoteInvalidRDRequest: {"IBV_WC_REM_INV_RD_REQ_ERR", "The peer refused a reliable datagram. " + hardwareOnly, nil},
		verbs.RemoteAbortedError: {"IBV_WC_REM_ABORT_ERR", "The operation was aborted at the peer. " + hardwareOnly,
			[]string{"On UD and reliable datagrams, the peer's queue pair went away."}},
		verbs.InvalidEECN:     {"IBV_WC_INV_EECN_ERR", "The number of an end-to-end context does not exist. " + hardwareOnly, nil},
		verbs.InvalidEECState: {"IBV_WC_INV_EEC_STATE_ERR", "An end-to-end context is in another state. " + hardwareOnly, nil},
		verbs.FatalError: {"IBV_WC_FATAL_ERR", "The device failed in a way that it cannot recover from. " + hardwareOnly,
			[]string{"The adapter or its driver was reset; the kernel's log has more."}},
		verbs.ResponseTimeoutError: {"IBV_WC_RESP_TIMEOUT_ERR", "A response did not come in time. " + hardwareOnly, []string{"The peer or the path to it is gone."}},
		verbs.GeneralError:         {"IBV_WC_GENERAL_ERR", "An error that has no other status. " + hardwareOnly, []string{"The vendor_err of the completion says more."}},
	}, func(n int) string { return verbs.Status(n).String() })
}

// reasons are what verbs.QP.Failure and vendor_err say beyond a status.
func reasons() []Entry {
	return entries(Reason, []explained{
		verbs.ReasonNoKey: {"REASON_NO_KEY", "No region or window has this key on the side that checked it.",
			[]string{"It was deregistered, unbound or invalidated before the request came.", "The key was sent in another byte order, or is that of another device or process."}},
		verbs.ReasonOtherOwner: {"REASON_OTHER_OWNER", "The key belongs to another protection domain, or is that of a type 2 window which is bound to another queue pair.",
			[]string{"Region and queue pair were made from two protection domains."}},
		verbs.ReasonOutside: {"REASON_OUTSIDE", "The first or last byte of the range is not within the memory of the key.",
			[]string{"A length that is too long by the offset.", "An offset in place of an address, or an address in a zero-based region."}},
		verbs.ReasonNoRight:    {"REASON_NO_RIGHT", "The key stands for the memory, but does not allow this access to it.", []string{"The region was registered without the flag."}},
		verbs.ReasonQPAccess:   {"REASON_QP_ACCESS", "The queue pair does not allow the operation, whatever the key does.", []string{"qp_access_flags lacked it when the queue pair went to INIT."}},
		verbs.ReasonMisaligned: {"REASON_MISALIGNED", "Atomics work on 8 bytes at an address that is a multiple of 8.", []string{"The offset within the region, or the region's start, is not."}},
		verbs.ReasonTooLong:    {"REASON_TOO_LONG", "The message is longer than the receive, or than the device takes.", []string{"The receive is smaller than the peer's SEND."}},
		verbs.ReasonTooMany:    {"REASON_TOO_MANY", "The peer had more READs and atomics in flight than max_dest_rd_atomic allows.", []string{"Its max_rd_atomic is larger."}},
		verbs.ReasonUnmapped:   {"REASON_UNMAPPED", "The memory of the key was there when it was registered, and is not mapped any more.", []string{"munmap, or a file that became shorter.", "The region ended during the operation."}},
		verbs.ReasonNoAnswer:   {"REASON_NO_ANSWER", "No acknowledgement came, in spite of all retries.", []string{"The peer's process has ended, or packets do not reach it: see IBV_WC_RETRY_EXC_ERR."}},
		verbs.ReasonNotReady:   {"REASON_NOT_READY", "The peer had no receive posted, in spite of all retries.", []string{"The peer posts its receives too late, or too few: see IBV_WC_RNR_RETRY_EXC_ERR."}},
		verbs.ReasonPeerRefused: {"REASON_PEER_REFUSED", "The peer refused the request. Over RoCE and InfiniBand a NAK says no more than the status. Over iWARP and shared memory the queue pair's Failure here says which check refused it.",
			[]string{"See the status of the completion, such as IBV_WC_REM_ACCESS_ERR.", "Which check refused it is in the log, in Failure and in ramjet stat qp at the peer."}},
		verbs.ReasonMalformed: {"REASON_MALFORMED", "A packet does not fit those before it.", []string{"A faulty peer, or PSNs of an earlier connection."}},
		verbs.ReasonNotEight: {"REASON_NOT_EIGHT", "An atomic operation, or an atomic WRITE, works on 8 bytes, and the list of the work request has more or fewer.",
			[]string{"The list has to have 8 bytes: of an atomic operation they receive what the memory held before."}},
		verbs.ReasonPeerClosed: {"REASON_PEER_CLOSED", "The peer closed the connection, and what had not begun was flushed. No error, if the program expected it.",
			[]string{"The peer's program ended, or destroyed its queue pair or id."}},
	}, func(n int) string { return verbs.Reason(n).String() })
}

// events are the asynchronous ones (IBTA 11.6.3).
func events() []Entry {
	return entries(Event, []explained{
		verbs.EventCQError: {"IBV_EVENT_CQ_ERR", "A completion queue overflowed: completions are lost, and its queue pairs go to ERR.",
			[]string{"It has fewer entries than its queue pairs can have work requests outstanding.", "The program polls too seldom."}},
		verbs.EventQPFatal:          {"IBV_EVENT_QP_FATAL", "A queue pair went to ERR, and no completion of its own tells why.", []string{"Its completion queue overflowed.", "A receive names memory that may not be written to."}},
		verbs.EventQPRequestError:   {"IBV_EVENT_QP_REQ_ERR", "The peer sent an invalid request; its completion is a remote invalid request error.", []string{"See IBV_WC_REM_INV_REQ_ERR. The queue pair's Failure says which check refused it."}},
		verbs.EventQPAccessError:    {"IBV_EVENT_QP_ACCESS_ERR", "The peer requested an access that is not allowed; its completion is a remote access error.", []string{"See IBV_WC_REM_ACCESS_ERR. The queue pair's Failure says which check refused it."}},
		verbs.EventCommEstablished:  {"IBV_EVENT_COMM_EST", "The first packet arrived while the queue pair was in RTR. No error: it may go to RTS.", nil},
		verbs.EventSQDrained:        {"IBV_EVENT_SQ_DRAINED", "The send queue has drained in SQD, as was requested.", nil},
		verbs.EventPathMigrated:     {"IBV_EVENT_PATH_MIG", "The connection uses its alternate path. " + hardwareOnly, nil},
		verbs.EventPathMigrateError: {"IBV_EVENT_PATH_MIG_ERR", "The connection could not change to its alternate path. " + hardwareOnly, nil},
		verbs.EventDeviceFatal:      {"IBV_EVENT_DEVICE_FATAL", "The device failed as a whole. " + hardwareOnly, nil},
		verbs.EventPortActive:       {"IBV_EVENT_PORT_ACTIVE", "The port is active (again).", nil},
		verbs.EventPortError:        {"IBV_EVENT_PORT_ERR", "The port is down. Queue pairs stay as they are until their retries run out.", []string{"The interface was taken down, lost its link or its address.", "On InfiniBand: a cable, a switch, or no subnet manager."}},
		verbs.EventLIDChange:        {"IBV_EVENT_LID_CHANGE", "The subnet manager gave the port another LID. Connections by LID are lost.", nil},
		verbs.EventPKeyChange:       {"IBV_EVENT_PKEY_CHANGE", "The port's partition table changed.", nil},
		verbs.EventSMChange:         {"IBV_EVENT_SM_CHANGE", "Another subnet manager has taken over.", nil},
		verbs.EventSRQError:         {"IBV_EVENT_SRQ_ERR", "A shared receive queue failed. " + hardwareOnly, nil},
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
		ib.NAKPSNSequenceError: {"NAK_PSN_SEQUENCE", "The responder missed a packet: the requester sends again from there. Many of them mean loss.", []string{"Packets are dropped in the network or at the receiver: look at SEQ and RETR of ramjet stat statistic."}},
		ib.NAKInvalidRequest: {"NAK_INVALID_REQUEST", "The responder took the request for invalid. The requester completes with IBV_WC_REM_INV_REQ_ERR, which ramjet explain has more about.",
			[]string{"The responder's queue pair does not allow the operation, an atomic is misaligned, or the message is longer than the receive."}},
		ib.NAKRemoteAccessError: {"NAK_REMOTE_ACCESS", "The responder refused the access to its memory. The requester completes with IBV_WC_REM_ACCESS_ERR, which ramjet explain has more about.",
			[]string{"A key that has ended, a range beyond its memory, or a right that the region does not give: ramjet stat qp at the responder says which."}},
		ib.NAKRemoteOperationalError: {"NAK_REMOTE_OPERATIONAL", "The responder could not carry out the request, for a reason of its own. The requester completes with IBV_WC_REM_OP_ERR.",
			[]string{"The responder's receive names memory that it may not write to."}},
		ib.NAKInvalidRDRequest: {"NAK_INVALID_RD_REQUEST", "Of reliable datagrams, which no device has any more.", nil},
	}, func(n int) string { return ib.NAKCode(n).String() })
}
