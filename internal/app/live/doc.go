// SPDX-License-Identifier: Apache-2.0

// Package live turns successive snapshots of processes with open devices into rates and bounded histories, for
// `ramjet top` and `ramjet dash`.
//
// It has no clock and reads nothing. Snapshots come from package statsocket, each with the time at which it
// was read. A [Tracker] compares it with the snapshot before of the same process. Objects created in between
// are counted from zero, as counters begin there; objects from before the first snapshot have no rates until
// the second.
//
// # What is the same
//
// A process is told apart by its id and the instance of its socket, so a process with the id of one that has
// ended is new. A queue pair is told apart by its number, its type and the objects it was created with. If
// one of its counters is less than before, it is another queue pair that was given the number. A device
// is told apart by its name.
//
// # What is kept
//
// An object's history begins with the first interval in which it moved something. The [Tracker] has a number of
// samples an object, and a bound on histories altogether; objects beyond that have current rates only.
// Objects that are gone stay for a while if they have histories, and no more than some hundreds at a time.
package live
