// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// requestClass describes the requests of a class.
type requestClass struct {
	op       verbs.WCOp   // of an atomic see requestOp
	need     verbs.Access // to this side's memory (IBTA 9.7.5.1.3); of a FLUSH see requestAccess
	responds bool         // with a response, rather than an acknowledgement
	reply    replyKind
}

var requestClasses = [...]requestClass{
	ib.ClassSend:        {op: verbs.WCSend},
	ib.ClassWrite:       {op: verbs.WCWrite, need: verbs.RemoteWrite},
	ib.ClassReadRequest: {verbs.WCRead, verbs.RemoteRead, true, replyRead},
	ib.ClassAtomic:      {verbs.WCFetchAdd, verbs.RemoteAtomic, true, replyAtomic},
	ib.ClassAtomicWrite: {verbs.WCAtomicWrite, verbs.RemoteWrite, true, replyEmpty},
	ib.ClassFlush:       {verbs.WCFlush, 0, true, replyEmpty},
}

// requestOp returns the operation of a request.
func requestOp(p *ib.Packet) verbs.WCOp {
	if p.Opcode.Operation() == ib.OpCompareSwap {
		return verbs.WCCompareSwap
	}
	return requestClasses[p.Opcode.Info().Class].op
}

// requestAccess returns the rights that a request needs.
func requestAccess(p *ib.Packet) verbs.Access {
	class := p.Opcode.Info().Class
	if class == ib.ClassFlush {
		return queue.FlushAccess(verbs.FlushLevel(p.FETH.Placement))
	}
	return requestClasses[class].need
}

// requestMemory returns the memory that a request names, and its bytes. A packet that continues a message names none.
func requestMemory(p *ib.Packet) (at verbs.Remote, n uint32) {
	switch headers := p.Opcode.Info().Headers; {
	case headers&ib.HasAtomicETH != 0:
		return verbs.Remote{Addr: p.AtomicETH.VA, Key: p.AtomicETH.RKey}, 8
	case headers&ib.HasRETH != 0:
		return verbs.Remote{Addr: p.RETH.VA, Key: p.RETH.RKey}, p.RETH.DMALen
	}
	return verbs.Remote{}, 0
}
