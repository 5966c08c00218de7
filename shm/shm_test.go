// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"crypto/rand"
	"maps"
	"os"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

func open(t testing.TB) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
	return dev
}

// unnoticed are the tests in which a target is not asked for its part.
var unnoticed = map[string]string{"Metrics/QP": "the target has no part in one-sided operations, and does not count them"}

func TestConformance(t *testing.T) {
	missing, differs := conformance.OfSharedMemory()
	maps.Copy(differs, unnoticed)
	conformance.Run(t, fixture(open, missing, differs))
}

// TestConformanceAsked has the target's process carry out operations that the system may let the initiator carry out.
func TestConformanceAsked(t *testing.T) {
	suite(t, func(t testing.TB) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device,
			error) {
			return shm.Open(addr, &shm.Options{NoCopies: true})
		})
		return dev
	}, nil)
}

// TestConformanceEvents has programs that wait sleep at once, and move the data themselves.
func TestConformanceEvents(t *testing.T) {
	suite(t, openEvents, unnoticed)
}

func openEvents(t testing.TB) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device,
		error) {
		return shm.Open(addr, &shm.Options{EventsOnly: true})
	})
	return dev
}

// TestConformanceShared has memory that both processes have mapped.
func TestConformanceShared(t *testing.T) {
	missing, differs := conformance.OfSharedMemory()
	maps.Copy(differs, unnoticed)
	for _, test := range []string{"MR/ReregMemory", "MR/ReregAll"} {
		differs[test] = "memory that the device has allocated goes with its region"
	}
	f := fixture(open, missing, differs)
	f.Allocated, f.Variant = true, true
	conformance.Run(t, f)
}

func suite(t *testing.T, open func(t testing.TB) *verbs.Device, more map[string]string) {
	missing, differs := conformance.OfSharedMemory()
	maps.Copy(differs, more)
	f := fixture(open, missing, differs)
	f.Variant = true
	conformance.Run(t, f)
}

// newGroup returns a multicast group that nobody else on the host has.
func newGroup() verbs.GID {
	g := verbs.GID{0: 0xff, 1: 0x15}
	rand.Read(g[2:])
	return g
}

func fixture(open func(t testing.TB) *verbs.Device, missing map[conformance.Ability]string,
	differs map[string]string) conformance.Fixture {
	return conformance.Fixture{Open: open, Missing: missing, Differs: differs, SlotBits: 6, Group: newGroup}
}
