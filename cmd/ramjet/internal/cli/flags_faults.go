// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// FaultText returns the text of faults that an argument has, or the file that it names, which is empty for a text. A
// name may have an @ in front, as in the environment.
func FaultText(arg string) (text, file string, err error) {
	arg, named := strings.CutPrefix(arg, "@")
	info, err := os.Stat(arg)
	if !named && (err != nil || info.IsDir()) {
		err = kinds.CheckFaults(arg)
		if err != nil && !strings.ContainsAny(arg, " ;\n") {
			err = fmt.Errorf("%w, or the name of a file that there is", err)
		}
		return arg, "", err
	}
	b, err := os.ReadFile(arg)
	if err != nil {
		return "", "", err
	}
	if err := kinds.CheckFaults(string(b)); err != nil {
		return "", "", fmt.Errorf("%s: %w", arg, err)
	}
	file, err = filepath.Abs(arg)
	return string(b), file, err
}
