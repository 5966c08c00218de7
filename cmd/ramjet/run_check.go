// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// checkEnvironment returns the variable by which a program is checked. Names of files are absolute, as programs change
// their directory.
func checkEnvironment(options string) (env []string, err error) {
	if options == "" {
		return nil, nil
	}
	if err := kinds.CheckOptions(options); err != nil {
		return nil, fmt.Errorf("--check: %w", err)
	}
	words := strings.Fields(options)
	for i, w := range words {
		if name, ok := strings.CutPrefix(w, "log="); ok {
			if name, err = filepath.Abs(name); err != nil {
				return nil, fmt.Errorf("--check: %w", err)
			}
			words[i] = "log=" + name
		}
	}
	return []string{kinds.CheckVariable + "=" + strings.Join(words, " ")}, nil
}
