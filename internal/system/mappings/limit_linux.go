// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"os"
	"strconv"
	"strings"
)

// systemLimit returns vm.max_map_count; the system's default, if it does not say.
func systemLimit() int64 {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return n
		}
	}
	return 65530
}
