// SPDX-License-Identifier: Apache-2.0

// Package verbs is the RDMA programming interface: devices, protection domains,
// memory regions and windows, completion queues, shared receive queues, queue pairs
// and address handles, with the semantics of IBTA volume 1 chapters 9 to 11 and names
// that users of libibverbs know.
//
// The types here are the part that all kinds of device share. They track which object uses which: closing
// an object in use is [ErrBusy], closing one twice is harmless. They deliver events, and they
// implement the queue pair state machine. A driver (package verbs/driver) moves the data: over RoCEv2, iWARP,
// InfiniBand, shared memory, or hardware.
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
