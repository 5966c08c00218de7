// SPDX-License-Identifier: Apache-2.0

package verbs

// The methods below fill in a work request for one operation, with that operation's operands and no others.
// They keep ID and Flags, clear everything else, copy the SGEs into the memory that SGL has, and return the
// work request, so that one can be posted again and again without an allocation:
//
//	wr := &verbs.SendWR{ID: 1, Flags: verbs.Signaled}
//	err := qp.PostSend(wr.Write(peer, mr.SGE(0, 4096)))
//
// For inline data leave out the SGEs and set Inline.

// set begins a work request for an operation.
func (wr *SendWR) set(op SendOp, sgl []SGE) *SendWR {
	*wr = SendWR{ID: wr.ID, Op: op, Flags: wr.Flags, SGL: append(wr.SGL[:0], sgl...)}
	return wr
}

// remote is set for an operation on memory of the peer.
func (wr *SendWR) remote(op SendOp, at Remote, sgl []SGE) *SendWR {
	wr.set(op, sgl)
	wr.Remote = at
	return wr
}

// Send fills in a SEND. On UD add [SendWR.To].
func (wr *SendWR) Send(sgl ...SGE) *SendWR { return wr.set(OpSend, sgl) }

// SendImm fills in a SEND with immediate data.
func (wr *SendWR) SendImm(imm uint32, sgl ...SGE) *SendWR {
	wr.set(OpSendImm, sgl)
	wr.Imm = imm
	return wr
}

// SendInv fills in a SEND that invalidates a key of the peer's, which takes [CapSendInvalidate].
func (wr *SendWR) SendInv(theirs Key, sgl ...SGE) *SendWR {
	wr.set(OpSendInv, sgl)
	wr.InvKey = theirs
	return wr
}

// Write fills in a WRITE of the SGEs' memory to the peer's memory at to.
func (wr *SendWR) Write(to Remote, sgl ...SGE) *SendWR { return wr.remote(OpWrite, to, sgl) }

// WriteImm fills in a WRITE with immediate data, which completes a receive of the peer.
func (wr *SendWR) WriteImm(to Remote, imm uint32, sgl ...SGE) *SendWR {
	wr.remote(OpWriteImm, to, sgl)
	wr.Imm = imm
	return wr
}

// Read fills in a READ of the peer's memory at from into the memory of the SGEs.
func (wr *SendWR) Read(from Remote, sgl ...SGE) *SendWR { return wr.remote(OpRead, from, sgl) }

// CompareSwap fills in an atomic operation on the peer's 8 bytes that at names, see [SendWR.Compare]. Their former
// value goes to result.
func (wr *SendWR) CompareSwap(at Remote, compare, swap uint64, result SGE) *SendWR {
	wr.remote(OpCompareSwap, at, []SGE{result})
	wr.Compare, wr.Swap = compare, swap
	return wr
}

// FetchAdd fills in an atomic operation on the peer's 8 bytes that at names, see [SendWR.Compare]. Their former value
// goes to result.
func (wr *SendWR) FetchAdd(at Remote, add uint64, result SGE) *SendWR {
	wr.remote(OpFetchAdd, at, []SGE{result})
	wr.Add = add
	return wr
}

// AtomicWrite fills in a write of 8 bytes to the peer's memory, all at once.
func (wr *SendWR) AtomicWrite(to Remote, from SGE) *SendWR {
	return wr.remote(OpAtomicWrite, to, []SGE{from})
}

// Flush fills in a FLUSH of n bytes at the peer.
func (wr *SendWR) Flush(at Remote, n uint32, level FlushLevel) *SendWR {
	wr.remote(OpFlush, at, nil)
	wr.FlushLen, wr.FlushLevel = n, level
	return wr
}

// FlushRegion fills in a FLUSH of the peer's whole region that key names.
func (wr *SendWR) FlushRegion(key Key, level FlushLevel) *SendWR {
	wr.remote(OpFlush, Remote{Key: key}, nil)
	wr.FlushScope, wr.FlushLevel = FlushRegion, level
	return wr
}

// LocalInv fills in the invalidation of a key of this device.
func (wr *SendWR) LocalInv(ours Key) *SendWR {
	wr.set(OpLocalInv, nil)
	wr.InvKey = ours
	return wr
}

// BindMW fills in the binding of a memory window.
func (wr *SendWR) BindMW(bind *MWBindInfo) *SendWR {
	wr.set(OpBindMW, nil)
	wr.Bind = bind
	return wr
}

// To adds the destination of a datagram: its address, queue pair and Q_Key (UD).
func (wr *SendWR) To(ah *AH, qpn QPN, qkey QKey) *SendWR {
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
	return wr
}

// ToSRQ adds the shared receive queue in which the receiver takes the message (XRC).
func (wr *SendWR) ToSRQ(number uint32) *SendWR {
	wr.SRQN = number
	return wr
}
