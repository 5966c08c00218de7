// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/ramjet-rdma/ramjet"
	_ "github.com/ramjet-rdma/ramjet/kernel" // devices of the kernel
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A program that uses the host's device if there is one, and says so if it takes Ramjet's software instead.
func Example() {
	dev, err := ramjet.Open("kernel:")
	if errors.Is(err, verbs.ErrNotFound) {
		fmt.Fprintln(os.Stderr, err, "- going on in software")
		dev, err = ramjet.Open("roce:")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Name())
}
