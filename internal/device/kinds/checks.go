// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
)

// CheckVariable is the variable of the environment that has programs checked, with the options of the checker.
const CheckVariable = check.Variable

// CheckOptions returns what is wrong with options of the checker, or keeps its log from being written.
func CheckOptions(text string) error {
	o, err := check.ParseOptions(text)
	if err != nil || o.Log == "" {
		return err
	}
	return CheckCallLog(o.Log)
}

// Checking reports whether the environment has programs checked.
func Checking() bool {
	c, _ := check.Process() // opening a device says what is wrong
	return c != nil
}

// checker returns the checker that the options, or the environment, ask for; nil: none.
func (o *Options) checker() (*check.Checker, error) {
	if o.Checks == nil {
		return check.Process()
	}
	opts, err := check.ParseOptions(o.CheckOptions)
	if err != nil {
		return nil, fmt.Errorf("options of the checker: %w", err)
	}
	return check.New(o.Checks, opts), nil
}
