// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// faultEnvironment returns the variables by which a program is injected with faults. Names of files are absolute, as
// programs change their directory.
func faultEnvironment(faults, log string) (env []string, err error) {
	if faults != "" {
		text, file, err := faultText(faults)
		if err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
		if file != "" {
			text = "@" + file
		}
		env = append(env, kinds.FaultsVariable+"="+text)
	}
	if log != "" {
		if log, err = filepath.Abs(log); err != nil {
			return nil, fmt.Errorf("--fault-log: %w", err)
		}
		env = append(env, kinds.FaultLogVariable+"="+log)
	}
	return env, nil
}
