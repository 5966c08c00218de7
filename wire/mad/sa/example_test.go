// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// A question for the paths from one LID to another: the mask says which components of the record count.
func ExampleHeader() {
	h := sa.NewHeader(sa.MethodGetTable, sa.AttrPathRecord, 0x1234, sa.PathDLID|sa.PathSLID)
	r := sa.PathRecord{DLID: 5, SLID: 2}
	b := r.Append(h.Append(nil))
	fmt.Println(len(b), "of", mad.Size, "bytes")

	var got sa.PathRecord
	got.Decode(b[sa.HeaderLen:])
	fmt.Printf("from LID %d to LID %d\n", got.SLID, got.DLID)
	// Output:
	// 120 of 256 bytes
	// from LID 2 to LID 5
}
