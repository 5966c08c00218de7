// SPDX-License-Identifier: Apache-2.0

package conformance

// OfIWARP returns the abilities that an iWARP device lacks, and the tests in which it behaves in another way, for
// its [Fixture].
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
	return missing, testsOf("iwarp")
}
