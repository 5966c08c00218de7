// SPDX-License-Identifier: Apache-2.0

package conformance

// What iWARP does otherwise, test by test.
const (
	noAck     = "a SEND or WRITE that the peer refuses has completed by then: what comes back is a Terminate (RFC 5040 section 4.8)"
	noRNR     = "a message without a receive waits in the stream, while its work request has completed"
	noSilence = "a queue pair in ERR is not silent: its stream has ended"
	noSelf    = "a stream has two ends: a queue pair cannot be both"
	noRight   = "RFC 5040 reports what a queue pair does not allow as an access violation"
)

// OfIWARP returns what an iWARP device is without, and what it does otherwise, for its [Fixture].
func OfIWARP() (missing map[Ability]string, differs map[string]string) {
	missing = map[Ability]string{
		Datagrams:       "iWARP runs over a reliable stream: RC only",
		Multicast:       "iWARP has no datagrams",
		IPHeaders:       "iWARP has no datagrams",
		MarkedSends:     "iWARP has no datagrams",
		XRC:             "RFC 5040 has no such service",
		AtomicFlush:     "neither RFC 5040 nor RFC 7306 has them",
		GeneralServices: "iWARP connects by TCP ports, without management datagrams",
		Unreliable:      "iWARP runs over a reliable stream: RC only",
		SendWithImm:     "RFC 7306 has immediate data as a message of its own",
		Acknowledged:    "a work request completes when TCP has its bytes",
	}
	differs = map[string]string{
		"Flush/AfterFailure": noAck, "Retry/PeerCloses": noAck, "RNR/Exceeded": noRNR, "Retry/PeerErrs": noSilence, "Op/Self": noSelf, "Refused/QPAccess": noRight,
	}
	return missing, differs
}
