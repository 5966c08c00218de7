// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/trace"
)

func ExampleWriter() {
	var file bytes.Buffer // or an *os.File, or standard output into wireshark -k -i -
	w, err := trace.NewWriter(&file, "roce:127.0.0.2")
	if err != nil {
		log.Fatal(err)
	}
	var bth, icrc [12]byte
	err = w.WriteUDP(&trace.UDP{
		At:           time.Now(),
		Src:          netip.MustParseAddrPort("127.0.0.2:49152"),
		Dst:          netip.MustParseAddrPort("127.0.0.3:4791"),
		DontFragment: true,
		TTL:          64,
		Direction:    trace.Outbound,
		Comment:      "first try",
	}, bth[:], []byte("payload "), icrc[:4])
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("packets left out:", w.Dropped())
	// Output: packets left out: 0
}
