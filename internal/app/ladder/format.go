// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// psns formats a range of PSNs.
func psns(from, to ib.PSN) string {
	if from == to {
		return fmt.Sprintf("%d", from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}
