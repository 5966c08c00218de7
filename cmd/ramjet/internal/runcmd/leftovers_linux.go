// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// leftovers are the reports that a program in Go cannot make as it ends: the objects that it has left, and how often
// faults have struck. It keeps records of them in folders.
type leftovers struct {
	env            []string // the program's
	checks, faults string   // the folders; empty: there is nothing to report
}

// isReported reports whether a program with this environment has reports to make as it ends.
func isReported(env []string) bool {
	faults, _ := lookup(env, kinds.FaultsVariable)
	return faults != "" || checkOptions(env) != ""
}

// checkOptions returns the options of the checker; empty: nothing is checked.
func checkOptions(env []string) string {
	options, _ := lookup(env, kinds.CheckVariable)
	if options == "0" {
		return ""
	}
	return options
}

// begin makes the folders.
func (l *leftovers) begin() (err error) {
	if checkOptions(l.env) != "" {
		if l.checks, err = os.MkdirTemp("", "ramjet-check-"); err != nil {
			return err
		}
	}
	if faults, _ := lookup(l.env, kinds.FaultsVariable); faults != "" {
		if l.faults, err = os.MkdirTemp("", "ramjet-faults-"); err != nil {
			l.end()
			return err
		}
	}
	return nil
}

// end removes the folders.
func (l *leftovers) end() {
	for _, dir := range []string{l.checks, l.faults} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
}

// variables returns the environment by which the program finds the folders.
func (l *leftovers) variables() (env []string) {
	if l.checks != "" {
		env = append(env, kinds.CheckRecordsVariable+"="+l.checks)
	}
	if l.faults != "" {
		env = append(env, kinds.FaultRecordsVariable+"="+l.faults)
	}
	return env
}

// report makes the reports of a program that has ended, and returns the status for one that has not failed. Of a
// program that a signal has ended it reports the faults alone, as of one in C.
func (l *leftovers) report(pid int, signaled bool) (status int, err error) {
	if l.faults != "" {
		text, _ := lookup(l.env, kinds.FaultsVariable)
		log, _ := lookup(l.env, kinds.FaultLogVariable)
		if err := kinds.FinishFaultRecords(l.faults, text, log, pid); err != nil {
			return 0, fmt.Errorf("how often faults have struck: %w", err)
		}
	}
	if l.checks != "" && !signaled {
		if status, err = kinds.ReportLeft(l.checks, checkOptions(l.env)); err != nil {
			return 0, fmt.Errorf("what the program has left: %w", err)
		}
	}
	return status, nil
}
