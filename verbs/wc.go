// SPDX-License-Identifier: Apache-2.0

package verbs

// Status is how a work request ended (IBTA 10.10, 11.6.2).
type Status uint8

const (
	StatusSuccess Status = iota // it was carried out
	// the message does not fit the receive, or is longer than the device or the path can send
	StatusLocalLengthError
	StatusLocalQPOperationError  // the device found the queue pair's own state inconsistent
	StatusLocalEECOperationError // of reliable datagrams, which no device has
	StatusLocalProtectionError   // a scatter/gather element names memory that its local key does not cover or allow
	StatusWRFlushError           // it was posted, or not finished, when the queue pair was in ERR
	StatusMWBindError            // a memory window was not bound, or a key not invalidated
	StatusBadResponseError       // the response does not fit the request
	StatusLocalAccessError       // the memory of a receive failed while a WRITE with immediate completed it
	// the peer refused the request: too long for its receive, misaligned, or an operation that it does not have
	StatusRemoteInvalidRequestError
	StatusRemoteAccessError      // the peer refused the access: key, bounds, rights or protection domain
	StatusRemoteOperationError   // the peer failed to carry it out, for a reason of its own
	StatusRetryExceeded          // no acknowledgement came, in spite of all retries
	StatusRNRRetryExceeded       // the peer had no receive posted, in spite of all retries
	StatusLocalRDDViolationError // of reliable datagrams
	StatusRemoteInvalidRDRequest // of reliable datagrams
	StatusRemoteAbortedError     // the peer gave the operation up
	StatusInvalidEECN            // of reliable datagrams
	StatusInvalidEECState        // of reliable datagrams
	StatusFatalError             // the device has failed
	StatusResponseTimeoutError   // no response came in time
	StatusGeneralError           // anything else that went wrong in the device
)

// String returns the text of ibv_wc_status_str, such as remote access error.
func (s Status) String() string {
	return name([]string{"success", "local length error", "local QP operation error",
		"local EE context operation error", "local protection error", "Work Request Flushed Error",
		"memory management operation error", "bad response error", "local access error", "remote invalid request error",
		"remote access error", "remote operation error", "transport retry counter exceeded",
		"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error",
		"invalid EE context number", "invalid EE context state",
		"fatal error", "response timeout error", "general error"}, s)
}

// Err returns nil for [StatusSuccess] and otherwise a [*StatusError].
func (s Status) Err() error {
	if s == StatusSuccess {
		return nil
	}
	return &StatusError{Status: s}
}

// StatusError carries the status of a failed work request as a Go error.
type StatusError struct {
	Status Status
	Reason Reason // ReasonUnknown: the status says it all, or no more is known
}

// Error returns the status, and the reason if it is known.
func (e *StatusError) Error() string {
	text := "verbs: work request failed: " + e.Status.String()
	if e.Reason != ReasonUnknown {
		text += ": " + e.Reason.String()
	}
	return text
}

// Is makes errors.Is compare statuses.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Status == e.Status
}

// WCOp is the operation that completed.
type WCOp uint8

const (
	WCSend         WCOp = iota // of all three kinds of SEND
	WCWrite                    // with and without immediate
	WCRead                     // the data read is in the scatter/gather list
	WCCompareSwap              // the old value is in the scatter/gather list
	WCFetchAdd                 // the old value is in the scatter/gather list
	WCBindMW                   // of type 2, by a work request
	WCLocalInv                 // the key is no longer valid
	WCAtomicWrite              // the 8 bytes are at the peer
	WCFlush                    // the peer's memory is visible, or persistent
	WCRecv                     // a receive that a SEND has used
	WCRecvWriteImm             // a receive used by a WRITE with immediate; the data are where the WRITE put them
)

// String returns the name of libibverbs without its prefix, such as RECV_RDMA_WITH_IMM.
func (o WCOp) String() string {
	return name([]string{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV",
		"ATOMIC_WRITE", "FLUSH", "RECV", "RECV_RDMA_WITH_IMM"}, o)
}

// Err returns nil for [StatusSuccess] and otherwise a [*StatusError] with the reason, as far as it is known.
func (wc *WC) Err() error {
	if wc.Status == StatusSuccess {
		return nil
	}
	return &StatusError{Status: wc.Status, Reason: Reason(min(wc.VendorErr, 255))}
}

// WCFlags say which optional fields of a completion are valid.
type WCFlags uint8

const (
	WithGRH WCFlags = 1 << iota // the first 40 bytes of the receive buffer are a GRH
	WithImm                     // Imm is valid
	WithInv                     // InvKey is valid
)

// String lists the flags' names.
func (f WCFlags) String() string { return flagNames(uint32(f), "GRH", "WITH_IMM", "WITH_INV") }

// WC is a work completion (IBTA 11.4.2.1). If Status is not [StatusSuccess], only ID, Status,
// VendorErr and QPN are valid.
type WC struct {
	ID        uint64
	Status    Status
	Op        WCOp
	Flags     WCFlags
	SL        uint8 // UD: service level
	PKeyIndex uint16
	SLID      uint16 // UD, on fabrics that have LIDs: the sender's
	ByteLen   uint32 // bytes received or read; UD: the 40 bytes of GRH included
	Imm       uint32 // WithImm
	InvKey    Key    // WithInv
	QPN       QPN    // the local queue pair
	SrcQPN    QPN    // UD: the sender
	VendorErr uint32 // a [Reason]; [QP.Failure] has the numbers
	// DLIDPathBits are the low bits of the LID that a datagram was sent to, [PortAttr.LMC] of them.
	DLIDPathBits uint8
	Timestamp    uint64 // nanoseconds of the device's clock, see [Device.Clock]; 0: [CQOptions].NoTimestamps
}
