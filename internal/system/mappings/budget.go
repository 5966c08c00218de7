// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrFull means that the budget is used up.
var ErrFull = errors.New("too many memory mappings")

var (
	used  atomic.Int64
	limit = sync.OnceValue(func() int64 { return systemLimit() / 4 * 3 })
)

// Take takes a mapping from the budget, before it is made. It returns an [ErrFull] that names the limit if there
// is none left.
func Take() error {
	if used.Add(1) <= limit() {
		return nil
	}
	used.Add(-1)
	return fmt.Errorf("%w: %d, which is three quarters of what the system allows a process (sysctl vm.max_map_count)",
		ErrFull, limit())
}

// Give gives a mapping back, after it was unmapped.
func Give() { used.Add(-1) }
