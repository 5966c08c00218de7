// SPDX-License-Identifier: Apache-2.0

package roce1_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/roce1"
)

// A message to a host on the same link. It takes CAP_NET_RAW.
func Example() {
	if err := roce1.Permitted(); err != nil {
		log.Fatal(err) // names the missing right or interface
	}
	dev, err := roce1.Open("eth0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	conn, err := cm.Dial(context.Background(), dev, "192.0.2.9:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send(context.Background(), []byte("hello")); err != nil {
		log.Fatal(err)
	}
	fmt.Println("received by", conn.PeerAddr())
}
