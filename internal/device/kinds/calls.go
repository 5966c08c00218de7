// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// CallLogVariable is the variable of the environment that names the file for a log of calls, and CallFilterVariable
// the one with its filter.
const (
	CallLogVariable    = calllog.Variable
	CallFilterVariable = calllog.FilterVariable
)

// CheckCallFilter returns the error in a filter of calls.
func CheckCallFilter(text string) error {
	_, err := calllog.ParseFilter(text)
	return err
}

// CheckCallLog returns the error that keeps a log from being written to a file, and leaves that behind empty, if it is
// new.
func CheckCallLog(name string) error {
	f, err := calllog.OpenFile(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// callLog returns the log of calls that the options, or the environment, ask for; nil: none.
func (o *Options) callLog() (*calllog.Log, error) {
	if o.CallsLogged {
		return nil, nil
	}
	if o.Calls == nil {
		return calllog.Process()
	}
	f, err := calllog.ParseFilter(o.CallFilter)
	if err != nil {
		return nil, fmt.Errorf("filter of calls: %w", err)
	}
	return calllog.New(o.Calls, f), nil
}
