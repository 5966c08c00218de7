// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
)

// CheckVariable is the variable of the environment that has programs checked, with the options of the checker.
const CheckVariable = check.Variable

// CheckOptions returns an error if options of the checker are wrong, or its log cannot be written.
func CheckOptions(text string) error {
	o, err := check.ParseOptions(text)
	if err != nil || o.Log == "" {
		return err
	}
	return CheckCallLog(o.Log)
}

// Checking reports whether the environment has programs checked.
func Checking() bool {
	c, _ := check.Process() // opening a device returns the error
	return c != nil
}

// CheckRecordsVariable is the variable of the environment that names a folder in which programs in Go record the
// objects that they would leave.
const CheckRecordsVariable = check.RecordsVariable

// ReportLeft reports the objects that programs in Go have left when they ended, by their records in a folder. It
// returns the status for a program that has not failed.
func ReportLeft(dir, options string) (status int, err error) { return check.ReportLeft(dir, options) }

// checker returns the checker that the options, or the environment, ask for; nil: none.
func (o *Options) checker() (*check.Checker, error) {
	if o.Checks == nil {
		return check.Process()
	}
	opts, err := check.ParseOptions(o.CheckOptions)
	if err != nil {
		return nil, fmt.Errorf("options of the checker: %w", err)
	}
	c := check.New(o.Checks, opts)
	asked.Lock()
	defer asked.Unlock()
	asked.all = append(slices.DeleteFunc(asked.all,
		func(p weak.Pointer[check.Checker]) bool { return p.Value() == nil }), weak.Make(c))
	return c, nil
}

// asked are the checkers that options have asked for, as long as their devices are there.
var asked struct {
	sync.Mutex
	all []weak.Pointer[check.Checker]
}

// EndChecks has all checkers report the objects that are left as the program ends. It returns the status for a program
// that has not failed: 0 if none of them had findings.
func EndChecks() (status int) {
	asked.Lock()
	all := slices.Clone(asked.all)
	asked.Unlock()
	if c, _ := check.Process(); c != nil {
		status = c.Exit()
	}
	for _, p := range all {
		if c := p.Value(); c != nil {
			status = max(status, c.Exit())
		}
	}
	return status
}
