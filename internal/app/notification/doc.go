// SPDX-License-Identifier: Apache-2.0

// Package notification measures how a target learns of WRITEs, and its costs by the number of its peers.
//
// A client device and a target device of one process are connected by as many queue pairs as there
// are peers. One peer at random writes a byte. The target learns which one in each of three ways: see
// [Way]. Two figures belong to each:
//
//   - the time from just before the post until the target knows the peer ([Delay]);
//   - the processor time of a look that finds nothing ([Look]).
//
// The target's bytes are a cache line apart unless [Config] says otherwise. Software devices move data
// only when a program polls. So each look of a target that polls bytes also polls its completion queue, and
// [Result].Scan is the cost of the bytes alone, which remains of a look on hardware.
//
// At most one WRITE is on its way at a time. It is posted once the target has been looking, or
// sleeping, for a random time, so that the moment of its arrival has no relation to the looks. The
// target compares each byte and each peer with the posted ones.
package notification
