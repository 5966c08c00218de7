// SPDX-License-Identifier: Apache-2.0

// Package check finds mistakes in the use of RDMA: memory that changes while it is posted, queues that hardware would
// not hold, objects that are used after they were destroyed. docs/check.md describes the rules.
//
// A [Checker] reports findings for a process. [Checker.Watch] has it check a device: it then sees the calls of package
// verbs, posts work requests in the place of the program's, and looks at each completion before the program has it.
//
// Receives, and the targets of READs and atomic operations, get memory of the checker's, and their data is copied to
// the program's as it polls the completion. So the program's memory must be the same by then as it was when it was
// posted.
//
// The package is in these files:
//
//   - checker.go: the checker of a process, its reports
//   - options.go: options as text
//   - rules.go: the rules, with their sentences and advice
//   - finding.go: a finding, and its text
//   - packets.go: the last packets of a queue pair, in reports
//   - stack.go: where the program was
//   - frames.go, frames_amd64.s, frames_arm64.s, frames_other.go: the return addresses of a goroutine's frames
//   - device.go: a device that is checked: its calls
//   - objects.go: its objects
//   - order.go: posted work requests, until their completions have been polled
//   - operation.go: the facts about operations that rules ask for
//   - post.go: posting and polling
//   - memory.go: the memory of work requests
//   - seal.go: digests of memory as it was posted
//   - reuse.go: values that are used again, and rings of the last ones
//   - digest.go, digest_amd64.go, digest_amd64.s, digest_other.go: digests of memory
//   - freed.go: memory that is freed while it is registered
//   - copied.go: where the checker itself, or a peer, has written to the program's memory
//   - bounce.go: memory that the device uses in the place of the program's
//   - handles.go: the objects of C programs, by their addresses
//   - history.go: when one-sided operations were posted and carried out
//   - race.go: which of them were concurrent
//   - owner.go: work requests of the memory's owner that were concurrent with a peer's WRITE
//   - processes.go: operations that other processes have posted
//   - messages.go: which receive got which message
//   - queuepairs.go: WRITEs that are announced on another queue pair
//   - noticed.go: the same between processes: they ask the target when it noticed what
//   - record.go, left.go: what a program in Go leaves as it ends, and how the one that has started it reports that
//   - announce.go: data that is sent before the READ that brings it has ended
//   - refused.go: requests of peers that the device refuses, and why the program is to blame
//   - grh.go: the 40 bytes before datagrams
//   - windows.go: memory windows, and their keys that end
//   - rnr.go: receivers without receives
//   - look.go: WRITEs that are noticed before they have ended
//   - limits.go: rules of queues and keys that are checked as work is posted
//   - channel.go: waits for completion channels
package check
