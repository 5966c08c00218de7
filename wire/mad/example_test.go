// SPDX-License-Identifier: Apache-2.0

package mad_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// The header of a connection request.
func ExampleHeader() {
	h := mad.CMHeader(mad.AttrREQ, 0x1234)
	b := h.Append(nil)

	var got mad.Header
	if !got.Decode(b) {
		fmt.Println("too short")
	}
	fmt.Printf("class %d, %v, transaction %#x\n", got.Class, got.Attribute, got.TID)
	// Output: class 7, REQ, transaction 0x1234
}
