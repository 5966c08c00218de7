// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// faultEnvironment returns the variables by which a program is injected with faults. Names of files are absolute, as
// programs change their directory.
func faultEnvironment(faults, log string) (env []string, err error) {
	if faults != "" {
		text, file, err := cli.FaultText(faults)
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
