// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"maps"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/conformance"
	"github.com/ramjet-rdma/ramjet/internal/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// open opens a device of a loopback address of its own.
func open(t testing.TB, opt *iwarp.Options) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, opt) })
	return dev
}

// missing is what iWARP is without.
var missing = map[conformance.Ability]string{
	conformance.Datagrams:       "iWARP runs over a reliable stream: RC only",
	conformance.Multicast:       "iWARP has no datagrams",
	conformance.IPHeaders:       "iWARP has no datagrams",
	conformance.MarkedSends:     "iWARP has no datagrams",
	conformance.XRC:             "RFC 5040 has no such service",
	conformance.AtomicFlush:     "neither RFC 5040 nor RFC 7306 has them",
	conformance.GeneralServices: "iWARP connects by TCP ports, without management datagrams",
	conformance.Unreliable:      "iWARP runs over a reliable stream: RC only",
	conformance.SendWithImm:     "RFC 7306 has immediate data as a message of its own",
	conformance.Acknowledged:    "a work request completes when TCP has its bytes",
}

// What iWARP does otherwise, test by test.
const (
	noAck     = "a SEND or WRITE that the peer refuses has completed by then: what comes back is a Terminate (RFC 5040 section 4.8)"
	noRNR     = "a message without a receive waits in the stream, while its work request has completed"
	noSilence = "a queue pair in ERR is not silent: its stream has ended"
	noSelf    = "a stream has two ends: a queue pair cannot be both"
	noRight   = "RFC 5040 reports what a queue pair does not allow as an access violation"
)

var differs = map[string]string{
	"Flush/AfterFailure": noAck, "Retry/PeerCloses": noAck, "RNR/Exceeded": noRNR, "Retry/PeerErrs": noSilence, "Op/Self": noSelf, "Refused/QPAccess": noRight,
}

func TestConformance(t *testing.T) { suite(t, opener(nil), nil) }

// opener opens devices with the same options.
func opener(opt *iwarp.Options) func(testing.TB) *verbs.Device {
	return func(t testing.TB) *verbs.Device { return open(t, opt) }
}

func suite(t *testing.T, open func(testing.TB) *verbs.Device, more map[string]string) {
	differs := maps.Clone(differs)
	maps.Copy(differs, more)
	conformance.Run(t, conformance.Fixture{Open: open, Missing: missing, Differs: differs,
		Group: func() verbs.GID { return verbs.GID{0: 0xff} }})
}
