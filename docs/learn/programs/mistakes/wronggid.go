// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// wrongGID connects to a GID at which nobody is. Nothing refuses that: RDMA has no handshake of its own.
// The first message finds out.
func wrongGID() {
	a, b := kit.Open("roce:127.0.71.1", 16), kit.Open("roce:127.0.71.2", 16)
	local, remote := kit.Must(a.QP.Endpoint(0)), kit.Must(b.QP.Endpoint(0))
	remote.GID = verbs.GID(netip.MustParseAddr("127.0.71.99").As16())
	kit.Check(a.QP.Connect(local, remote, &verbs.ConnectOptions{Timeout: 10, RetryCount: 2}))
	fmt.Println("connected:", a.QP.State())
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("data")}))
	fmt.Println("sender:", a.Wait().Status)
}
