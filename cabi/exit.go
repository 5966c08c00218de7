// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "C"

import "github.com/ramjet-rdma/ramjet/internal/device/kinds"

// rj_leave sends the last messages to peers before the process exits: delayed acknowledgements, and
// the ends of its connections. A kernel would do that for its processes. Then it completes the
// recording, and the log of faults, if any. It returns the status that the checker wants instead of 0.
//
//export rj_leave
func rj_leave() C.int {
	status := checkExit()
	cqs.each(func(q *cq) { q.ReqNotify(false) }) // sends packets that wait for the program's next poll
	cmIDs.each(func(id *cmID) {
		if !id.mu.TryLock() {
			return // another thread is in a call
		}
		defer id.mu.Unlock()
		for _, one := range id.ids {
			one.Disconnect()
		}
	})
	kinds.FinishFaults()
	endRecording()
	return C.int(status)
}
