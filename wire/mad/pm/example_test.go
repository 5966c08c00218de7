// SPDX-License-Identifier: Apache-2.0

package pm_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
)

// The counters of a port count data in units of four bytes.
func ExamplePortCounters() {
	sent := pm.PortCounters{Port: 1, XmitPkts: 2, XmitData: 16}
	b := sent.Append(nil)

	var c pm.PortCounters
	if !c.Decode(b) {
		fmt.Println("too short")
	}
	fmt.Printf("port %d: %d packets, %d bytes\n", c.Port, c.XmitPkts, 4*c.XmitData)
	// Output: port 1: 2 packets, 64 bytes
}
