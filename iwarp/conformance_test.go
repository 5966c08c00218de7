// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"maps"
	"os"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

// open opens a device of a loopback address of its own.
func open(t testing.TB, opt *iwarp.Options) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, opt) })
	return dev
}

// missing are the abilities that iWARP lacks, differs the tests in which it behaves in another way.
var missing, differs = conformance.OfIWARP()

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Fixture{Open: opener(nil), Missing: missing, Differs: differs, Group: noGroup})
}

func noGroup() verbs.GID { return verbs.GID{0: 0xff} }

// Streams of other kinds than the default.

func TestConformanceNoCRC(t *testing.T) { suite(t, opener(&iwarp.Options{NoCRC: true}), nil) }

func TestConformanceMarkers(t *testing.T) {
	suite(t, opener(&iwarp.Options{Markers: true}),
		map[string]string{"Measure/IdleQP": "a stream with markers has a buffer of its own"})
}

func TestConformanceMSS1460(t *testing.T) { suite(t, opener(&iwarp.Options{FPDU: 1460}), nil) }

// opener opens devices with the same options.
func opener(opt *iwarp.Options) func(testing.TB) *verbs.Device {
	return func(t testing.TB) *verbs.Device { return open(t, opt) }
}

// suite runs the suite over another kind of stream than the default.
func suite(t *testing.T, open func(testing.TB) *verbs.Device, more map[string]string) {
	differs := maps.Clone(differs)
	maps.Copy(differs, more)
	conformance.Run(t, conformance.Fixture{Open: open, Missing: missing, Differs: differs, Group: noGroup,
		Variant: true})
}
