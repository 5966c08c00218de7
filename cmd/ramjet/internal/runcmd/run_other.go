// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package runcmd

import (
	"errors"

	"github.com/spf13/cobra"
)

// execProgram fails: there are no libraries for this system.
func execProgram(string, []string, []string, string, bool) error { return errors.ErrUnsupported }

func Helpers() []*cobra.Command { return nil }
