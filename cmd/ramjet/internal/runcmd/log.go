// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// standardError stands for it as the file of a log.
const standardError = "-"

// callLogEnvironment returns the variables by which a program's calls are logged. env is the rest of its environment:
// the filter there is checked, too, as nothing would be logged with a wrong one. Names of files are absolute, as
// programs change their directory.
func callLogEnvironment(log, filter string, env []string) (more []string, err error) {
	if filter != "" {
		if err := kinds.CheckCallFilter(filter); err != nil {
			return nil, fmt.Errorf("--log-filter: %w", err)
		}
		more = append(more, kinds.CallFilterVariable+"="+filter)
	}
	named, _ := lookup(env, kinds.CallLogVariable)
	switch {
	case log == "" && named == "" && filter == "":
		return nil, nil
	case log == "" && named == "":
		log = standardError
	case log == "":
		log = named
	}
	if filter == "" {
		if text, _ := lookup(env, kinds.CallFilterVariable); text != "" {
			if err := kinds.CheckCallFilter(text); err != nil {
				return nil, fmt.Errorf("%s: %w", kinds.CallFilterVariable, err)
			}
		}
	}
	if log != standardError {
		if log, err = filepath.Abs(log); err == nil {
			err = kinds.CheckCallLog(log) // the program will have this process's id
		}
		if err != nil {
			return nil, fmt.Errorf("--log: %w", err)
		}
	}
	return append(more, kinds.CallLogVariable+"="+log), nil
}
