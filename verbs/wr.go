// SPDX-License-Identifier: Apache-2.0

package verbs

// SendOp is the operation of a work request on a send queue (IBTA 10.8, 11.4.1.1).
type SendOp uint8

const (
	OpSend        SendOp = iota + 1 // into the peer's next receive
	OpSendImm                       // the same, with 32 bits of immediate data
	OpSendInv                       // RC: also invalidates a remote key at the peer
	OpWrite                         // into the peer's memory
	OpWriteImm                      // the same, and completes the peer's next receive, with 32 bits of immediate data
	OpRead                          // from the peer's memory
	OpCompareSwap                   // see [SendWR.Compare]
	OpFetchAdd                      // see [SendWR.Compare]
	OpAtomicWrite                   // 8 bytes, written at once (IBTA annex A19); aligned as for OpCompareSwap
	OpFlush                         // makes earlier writes visible or persistent at the peer (IBTA annex A19)
	OpLocalInv                      // invalidates a key of this device
	OpBindMW                        // binds a memory window, see [SendWR.Bind]
)

// String returns the operation's name.
func (o SendOp) String() string {
	return name([]string{"", "SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "RDMA_READ",
		"ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "ATOMIC_WRITE", "FLUSH", "LOCAL_INV", "BIND_MW"}, o)
}

// SendFlags modify a work request.
type SendFlags uint8

const (
	// Signaled work requests complete with a WC even on success. Others do so in error only: they leave the
	// send queue as a later signaled one completes, on hardware not before that WC is polled. Signal at least
	// one in [QPCap] MaxSendWR work requests and poll it, or the queue fills and there is nothing to wait for:
	// PostSend then returns [ErrQueueFull].
	Signaled  SendFlags = 1 << iota
	Solicited           // raises a solicited event at the receiver
	Fence               // starts after all earlier READs and atomics of the queue have completed

	// Divisible lets a WRITE of RC go as messages of one packet each, which then all have one
	// length and are sent faster. If it has immediate data, the receive completion at the peer
	// counts only the bytes of the last one.
	Divisible
)

// String lists the flags' names.
func (f SendFlags) String() string {
	return flagNames(uint32(f), "SIGNALED", "SOLICITED", "FENCE", "DIVISIBLE")
}

// SGE is one piece of registered memory (IBTA 11.4.1.1). [MR.SGE] makes one.
type SGE struct {
	Addr   uint64 // in the region's addresses: the memory's address, or an offset if zero-based
	Length uint32 // bytes
	LKey   Key
}

// FlushLevel says how far a FLUSH has to push the data.
type FlushLevel uint8

const (
	FlushToGlobal     FlushLevel = 1 << iota // visible to all processors of the host
	FlushToPersistent                        // in the persistence domain
)

// FlushScope is the extent of a FLUSH.
type FlushScope uint8

const (
	FlushRange  FlushScope = iota // Remote and FlushLen
	FlushRegion                   // the whole region that Remote.Key names
)

// SendWR is a work request for a send queue. The queue retains no reference to it or to its slices
// after [QP.PostSend] returns. The memory that SGL names belongs to the device until the work
// request has completed.
//
// A method for each operation, such as [SendWR.Write], fills in the fields of that operation and no others.
type SendWR struct {
	ID     uint64
	Op     SendOp
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // used instead of SGL, copied when posted, needs no region

	Imm    uint32 // immediate data, as a number: sent in network byte order
	InvKey Key    // OpSendInv: the peer's key; OpLocalInv: ours
	Remote Remote // one-sided operations

	// Compare, Swap and Add are the operands of atomic operations (IBTA 9.4.5, RFC 7306 section 5), which
	// work on 8 bytes: a number in the byte order of the host that has them. The remote address must be
	// a multiple of 8; any other is refused with [StatusRemoteInvalidRequestError]. The number's former value goes
	// to the SGL, of 8 bytes too, in the byte order of this host.
	//
	// OpCompareSwap replaces a number that is equal to Compare by Swap. OpFetchAdd adds Add to it, modulo
	// 2^64.
	Compare uint64
	Swap    uint64
	Add     uint64

	AH         *AH  // UD
	RemoteQPN  QPN  // UD
	RemoteQKey QKey // UD

	SRQN uint32 // XRC: the receiver's shared receive queue

	Bind *MWBindInfo // OpBindMW

	FlushLen   uint32     // OpFlush with FlushRange: bytes from Remote on
	FlushLevel FlushLevel // OpFlush
	FlushScope FlushScope // OpFlush
}

// RecvWR is a work request for a receive queue.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}
