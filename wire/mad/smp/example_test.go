// SPDX-License-Identifier: Apache-2.0

package smp_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// A subnet manager asks for the description of a node two cables away: by port 3 of its own node, and port 1
// of the next one.
func ExampleNewDirected() {
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeDescription, 0, 0x1234, []uint8{3, 1})
	fmt.Println(len(p.Append(nil)), "bytes, by ports", p.Initial[1:3])
	// Output:
	// 256 bytes, by ports [3 1]
}
