// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Ability is something that a device may lack.
type Ability string

const (
	TwoDevices  Ability = "two devices that reach each other" // without it a device is its own peer
	Datagrams   Ability = "UD queue pairs"
	Multicast   Ability = "multicast"
	IPHeaders   Ability = "a GRH, or the IP header" // in front of received datagrams
	MarkedSends Ability = "the hop limit and traffic class of an address vector"
	SharedRecvs Ability = "shared receive queues"
	XRC         Ability = "XRC"
	Windows     Ability = "memory windows"
	AtomicFlush Ability = "atomic write and flush"
	Injection   Ability = "injected faults"
	Strictness  Ability = "the strictness of a NIC"

	Alike           Ability = "the answers that Ramjet's own devices give"
	Connections     Ability = "connections by address and port"
	GeneralServices Ability = "QP1"
	Metrics         Ability = "metrics"

	Unreliable   Ability = "UC queue pairs"
	Numbered     Ability = "connections by the numbers of queue pairs" // without it [Fixture.Connect] makes them
	ResetToErr   Ability = "a way from RESET to ERR"                   // without it queue pairs go there from INIT
	Atomics      Ability = "atomic operations"
	WriteWithImm Ability = "immediate data with a WRITE"
	SendWithImm  Ability = "immediate data with a SEND"
	Acknowledged Ability = "completions that say that the peer has the data" // without it tests wait for the data
)

// Fixture opens the devices under test, and lists the abilities that they lack.
type Fixture struct {
	// Open opens a device that reaches all others that were opened, and closes it with
	// the test.
	Open func(t testing.TB) *verbs.Device
	// Group returns a multicast group that no other test uses.
	Group func() verbs.GID
	// Join makes the port of a device a member of a group, and returns the group's LID; nil: there is
	// no administrator, and groups have no LIDs.
	Join func(t testing.TB, dev *verbs.Device, group verbs.GID) (lid uint16)
	// Connect connects two queue pairs; nil: by their numbers.
	Connect func(t testing.TB, a, b *verbs.QP, opt *verbs.ConnectOptions)
	// Serial says that one test must end before the next one starts.
	Serial bool
	// Beside says that such a suite may run beside other tests of the package.
	Beside bool
	// Long says that this is the suite that has the tests that take seconds, in long runs.
	Long bool
	// Variant says that another suite of the package runs over devices of the same kind: tests whose result a path, a
	// socket or a stream of another sort can change run always, the others in long runs.
	Variant bool
	// Within, where it is set, runs a test: in a bubble of virtual time, say. Such tests are Serial.
	Within func(t *testing.T, test func(*testing.T))
	// SetLink brings the port of a device down, or up again; nil: the suite has no tests of that.
	SetLink func(dev *verbs.Device, up bool)
	// Allocated says that the ends of connections have regions that their device allocates.
	Allocated bool
	// SlotBits is how many bits of a queue pair's number say which process has it; 0: four.
	SlotBits int
	// Missing has the reason for each ability that is missing.
	Missing map[Ability]string
	// Differs has the reason for each test that the device cannot pass as it is written.
	Differs map[string]string

	kind *atomic.Pointer[string] // of the devices, once a test has looked
}

// test is one test of the suite.
type test struct {
	name  string
	run   func(*T)
	needs []Ability
}

// Run runs the suite. Tests that measure run first, alone; the others run in parallel, also to
// tests of other suites of the package.
func Run(t *testing.T, f Fixture) {
	f.kind = new(atomic.Pointer[string])
	for _, c := range measurements {
		t.Run(c.name, func(t *testing.T) { c.start(t, &f) })
	}
	if !f.Serial || f.Beside {
		t.Parallel()
	}
	for _, group := range f.groups() {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				if !f.Serial {
					t.Parallel()
				}
				c.start(t, &f)
			})
		}
	}
}

// groups returns the tests of a run, except tests that measure.
func (f *Fixture) groups() [][]test {
	if f.Variant && !testrun.Long() {
		return [][]test{connectionTests, operationTests, atomicTests, shapeTests, scatteredTests, datagramTests,
			injectedTests, nicTests}
	}
	// Tests of connections and of retries come first, as they wait most.
	groups := [][]test{connectionTests, retryTests, attributeTests, queueTests, eventTests, memoryTests,
		registrationTests, windowTests, sharedTests, stateTests, flushTests,
		operationTests, atomicTests, shapeTests, scatteredTests, refusalTests, datagramTests, madTests, metricTests,
		closingTests, waitTests, concurrencyTests, numberTests, injectedTests, nicTests, factTests()}
	if f.SetLink != nil {
		groups = append(groups, portTests)
	}
	return groups
}

func (c *test) start(t *testing.T, f *Fixture) {
	for _, a := range c.needs {
		if why, missing := f.Missing[a]; missing {
			t.Skipf("no %s: %s", a, why)
		}
	}
	if why, differs := f.Differs[c.name]; differs {
		t.Skip(why)
	}
	if f.Within == nil {
		c.run(&T{T: t, f: f})
		return
	}
	f.Within(t, func(t *testing.T) { c.run(&T{T: t, f: f}) })
}
