// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"regexp"
	"sync"
)

// lazily returns a regular expression that is compiled when it is first needed: there are many, and most runs of the
// command need none.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
