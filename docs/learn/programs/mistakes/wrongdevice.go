// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
)

// wrongDevice opens a device on an address that is not this machine's, and names a row of the GID table
// that there is not.
func wrongDevice() {
	_, err := ramjet.Open("roce:203.0.113.1")
	fmt.Println(err)
	_, err = kit.Open("roce:127.0.71.1", 16).QP.Endpoint(3)
	fmt.Println(err)
}
