// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// The header of the first segment of a SEND.
func ExampleHeader() {
	h := iwarp.Header{Last: true, DDP: iwarp.DDPVersion, RDMAP: iwarp.RDMAPVersion, Opcode: iwarp.OpSend, MSN: 1}
	b := h.Append(nil)

	var got iwarp.Header
	if !got.Decode(b) {
		fmt.Println("too short")
	}
	fmt.Printf("%v, %d bytes, message %d, the last segment: %v\n", got.Opcode, len(b), got.MSN, got.Last)
	// Output: Send, 18 bytes, message 1, the last segment: true
}
