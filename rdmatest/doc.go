// SPDX-License-Identifier: Apache-2.0

// Package rdmatest tests programs that use RDMA.
//
// [Run] plays a test in worlds in virtual time: hosts, the paths between them, and devices that are the ones that ship,
// with simulated networks below them. One seed stands for one world. Ten idle minutes pass in microseconds, and a test
// that failed once fails again with the same seed.
//
//	func TestCounter(t *testing.T) {
//		rdmatest.Run(t, 100, func(w *rdmatest.World) {
//			server, client := w.Host("server"), w.Host("client")
//			s, c := server.RoCE(), client.RoCE()
//			w.Draw(rdmatest.Packets | rdmatest.Passing)
//			...
//		})
//	}
//
// Faults of a world that fails are taken away one after another until only the faults are left that the failure needs.
// The test prints the seed, the faults that follow from it, and the names of a trace as text and of a pcapng of the
// packets.
//
// [World.Check] has mistakes in the use of devices fail the test, too, such as memory that changes while it is posted.
//
// # Faults
//
// [World.Draw] draws faults from the seed. By call there are
//
//   - [World.SetPath]: loss, duplication, reordering, corruption, delay, rate, or nothing arrives, in one direction;
//   - [World.Partition]: two hosts parted in both directions, or joined again;
//   - [Host.SetLink]: a host's link down, or up; again and again by [World.After];
//   - [Host.Stop], [Host.Kill]: a process stopped, or killed;
//   - [Host.PowerOff], [Host.Remove]: a host without power, or its devices removed;
//   - [Host.HoldReceives], [Host.RefuseRegions]: a receiver without receives, a registration that is refused;
//   - the methods of [Fabric]: InfiniBand's cables, switches and credits.
//
// Before a test lets a fault of its own strike, it can ask [World.Fault], which names the fault in the report, and
// takes it away like the drawn ones:
//
//	if w.Fault("the server is killed after 3 ms") {
//		w.After(3*time.Millisecond, server.Kill)
//	}
//
// # Flags
//
//	-rdmatest.seeds N     play so many seeds instead of the test's number
//	-rdmatest.first N     begin with this seed
//	-rdmatest.seed N      play this one only, and keep its trace
//	-rdmatest.faults 1,3  of the drawn faults, let only the ones with these numbers strike; none: no fault
//	-rdmatest.j N         play in so many processes
//	-rdmatest.keep DIR    the directory of traces; otherwise a new temporary one
//
// # Rules of virtual time
//
// Time passes only while every goroutine of the world waits: in a device, for a channel, a timer, a sync.Cond or a
// sync.WaitGroup. A goroutine that waits for a mutex does not count as waiting. If its holder sleeps, or waits for
// the network, time stands still. The test ends then after a few seconds and names the goroutines. The same holds
// for real sockets and files, and for channels that were made outside of the world.
//
// All that happens in a world must follow from its seed: take random numbers from [World.Rand] or from crypto/rand, and
// wait with [World.Sleep]. Goroutines go on one at a time, so Run cannot be called in parallel tests.
//
// # Real time
//
// [Pair], [CheckedPair] and [Conns] are for tests in real time, on loopback addresses. They have the faults of
// ramjet.SetFaults:
//
//	a, b := rdmatest.Pair(t)
//	err := ramjet.SetFaults(a, "loss 1%", nil)
package rdmatest
