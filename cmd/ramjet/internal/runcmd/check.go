// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
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

// meantCheck returns the error of a program that was not found, which may be the options of --check behind a blank.
func meantCheck(err error, options, program string) error {
	if options != "1" || program == "" || kinds.CheckOptions(program) != nil {
		return err
	}
	return fmt.Errorf("%w: did you mean --check=%s?", err, program)
}

// isGoProgram reports whether a program has Ramjet's packages in it, and not by its libraries for C.
func isGoProgram(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && (info.Main.Path == softdev.Module ||
		slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == softdev.Module }))
}
