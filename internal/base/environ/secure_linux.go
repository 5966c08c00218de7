// SPDX-License-Identifier: Apache-2.0

package environ

import (
	"sync"

	"golang.org/x/sys/unix"
)

// atSecure is AT_SECURE of the auxiliary vector (getauxval(3)).
const atSecure = 23

// secure reports whether the kernel started the program in secure-execution mode (ld.so(8)): it has rights by its file
// that its user lacks.
var secure = sync.OnceValue(func() bool {
	vector, err := unix.Auxv()
	if err != nil { // then its users and groups tell
		return false
	}
	for _, v := range vector {
		if v[0] == atSecure {
			return v[1] != 0
		}
	}
	return false
})
