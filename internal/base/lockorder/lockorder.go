// SPDX-License-Identifier: Apache-2.0

// Package lockorder has mutexes with a place in the order of a device's locks. A goroutine takes a lock only while all
// locks that it holds come earlier in the order:
//
//   - [Claims]: the service ids that a device has claimed. Other processes may make its holder wait.
//   - [Port]: the state of a device's port
//   - [Lane]: the data of a lane's queue pairs; the lanes of one device in their order
//   - [Faults]: the faults that are injected into a device with several lanes, one of which works at a time
//   - [View]: the part of a device that observers see
//   - [Push]: the end of a completion queue at which several lanes add
//   - [Leaf]: a queue of completions, of shared receives, of datagrams or of callbacks
//
// The places are types, so a mutex carries none at run time. Programs built with the tag lockorder panic where the
// order is broken; without it a Mutex is a [sync.Mutex]. ./check runs conformance
// tests with the tag.
package lockorder

// Place is a place in the order.
type Place interface{ place() int }

// The places, from the first lock that is taken to the last.
type (
	Claims struct{}
	Port   struct{}
	Lane   struct{}
	Faults struct{}
	View   struct{}
	Push   struct{}
	Leaf   struct{}
)

func (Claims) place() int { return 0 }
func (Port) place() int   { return 1 }
func (Lane) place() int   { return 2 }
func (Faults) place() int { return 3 }
func (View) place() int   { return 4 }
func (Push) place() int   { return 5 }
func (Leaf) place() int   { return 6 }
