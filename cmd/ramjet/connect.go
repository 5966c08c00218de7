// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// connectTime bounds how long a client waits for a connection.
const connectTime = 10 * time.Second

// waitTime is a flag: how long something may take.
type waitTime time.Duration

func (w *waitTime) String() string { return time.Duration(*w).String() }

// Type is the word for the value in a command's help.
func (w *waitTime) Type() string { return "duration" }

// Set parses text such as 500ms, 10s, 2m.
func (w *waitTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no time to wait: give such as 500ms or 10s", text)
	}
	*w = waitTime(d)
	return nil
}

// addTimeoutFlag adds --timeout to a command that dials.
func addTimeoutFlag(c *cobra.Command, d *time.Duration) {
	*d = connectTime
	c.Flags().Var((*waitTime)(d), "timeout", "client: how long to wait for the connection")
}

// dialError explains why there is no connection; server is what has to run at the other side.
func dialError(err error, server string) error {
	reject := (*cm.RejectError)(nil)
	switch {
	case errors.Is(err, cm.ErrNoAddr), errors.Is(err, verbs.ErrInvalid):
		return usageError{err}
	case errors.As(err, &reject) && reject.Reason == cm.ReasonInvalidService:
		return fmt.Errorf("%w: start %s there first", err, server)
	case errors.Is(err, cm.ErrTimeout):
		return fmt.Errorf("%w: is the address right, does %s run there, with the same kind of device, does its port get through (UDP 4791 of roce:)?", err, server)
	}
	return err
}

// listenError explains why a port cannot be listened on: a fault of the command line.
func listenError(err error) error { return usageError{err} }
