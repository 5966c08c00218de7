// SPDX-License-Identifier: Apache-2.0

package crc_test

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// The check value of each CRC, of the nine digits.
func Example() {
	digits := []byte("123456789")
	fmt.Printf("%#08x\n", crc.UpdateIEEE(0, digits))
	fmt.Printf("%#08x\n", crc.UpdateCastagnoli(0, digits))

	// A copy and its CRC, in one pass.
	dst := make([]byte, len(digits))
	fmt.Printf("%#08x %s\n", crc.CopyIEEE(0, dst, digits), dst)
	// Output:
	// 0xcbf43926
	// 0xe3069283
	// 0xcbf43926 123456789
}
