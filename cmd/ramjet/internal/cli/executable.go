// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"runtime"
)

// Executable returns the path of this program, for a command whose second process is this program again.
func Executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		mend := ""
		if runtime.GOOS == "linux" {
			mend = ": mount /proc (mount -t proc proc /proc)"
		}
		return "", fmt.Errorf(
			"the second process cannot be started, as it is not known where this program's file is: %w%s", err, mend)
	}
	return path, nil
}
