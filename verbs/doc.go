// SPDX-License-Identifier: Apache-2.0

// Package verbs is the RDMA programming interface: devices, protection domains,
// memory regions and windows, completion queues, shared receive queues, queue pairs
// and address handles, with the semantics of IBTA volume 1 chapters 9 to 11 and names
// that users of libibverbs know.
//
// # Objects
//
// A program opens a [Device], by its name with ramjet.Open. Everything else is made from it:
//
//   - A [PD], a protection domain, holds objects that may be used together.
//   - An [MR] is memory that the device may access: registered with [PD.RegMR], or allocated with
//     [PD.AllocMR]. Its [SGE] names a piece of it in this program's work requests. Its [Remote] names it
//     in peers' work requests. An [MW] gives peers a part of a region for a time.
//   - A [CQ], a completion queue, has a [WC] for each work request that has ended.
//   - A [QP], a queue pair, has a queue of sends and a queue of receives. An [SRQ] is a queue of
//     receives that several queue pairs share. An [AH] is the destination of a datagram.
//
// Connected queue pairs (RC, UC and XRC) have one peer each. Both sides exchange an [Endpoint], and call
// [QP.Connect]; package cm does that by address and port. UD queue pairs send datagrams to any peer, after
// [QP.StartUD].
//
// # Work requests
//
// A [SendWR] is one operation. SEND fills the peer's next receive, a [RecvWR] that the peer has posted.
// WRITE, READ and atomics access the peer's memory by its Remote, and the peer's program does nothing.
// A request is posted to a queue pair, and [CQ.Poll] or [CQ.Wait] returns its completion:
//
//	wr := verbs.SendWR{ID: 1, Flags: verbs.Signaled}
//	err := qp.PostSend(wr.Write(remote, mr.SGE(0, n)))
//	…
//	n, err := cq.Wait(ctx, wcs) // wcs[0].ID is 1, wcs[0].Err() is nil
//
// The memory of a request belongs to the device until the request has completed. Requests of a queue
// pair begin and complete in the order in which they were posted. On a reliable connection one that fails takes
// the queue pair to [StateError]: all others complete with [StatusWRFlushError], and [QP.Failure] says why.
//
// # Devices
//
// The types of this package are common to all kinds of device. They track which object uses which: closing an object in
// use is [ErrBusy], closing one twice is harmless. They deliver events ([Device.Event]), and they implement the queue
// pair state machine ([QP.Modify]). A driver (package verbs/driver) moves the data: over RoCEv2, iWARP, InfiniBand,
// shared memory, or hardware. [Device.Query] returns the capabilities of a device.
//
// # Errors
//
// A call that cannot be carried out returns an [*OpError] around one of the sentinels of
// this package. A work request that fails completes with a [Status] in its [WC].
//
// # Concurrency
//
// All methods may be called from several goroutines at once. Completions of one queue are delivered
// in order. Each completion goes to one of the goroutines that poll the queue.
//
// # Memory
//
// The memory of a region belongs to the program and to its peers at the same time, as with RDMA
// hardware. The memory of a work request may be read and written freely after its completion was
// polled. Memory that a peer reads or writes one-sidedly while the program uses it is a data race,
// unless the program accesses it through [MR.Do], [MR.WaitFor] and the helpers built on them.
package verbs
