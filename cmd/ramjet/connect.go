// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
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

// dialError explains why there is no connection of dev; server is what has to run at the other
// side.
func dialError(err error, dev *verbs.Device, server string) error {
	reject := (*cm.RejectError)(nil)
	switch {
	case errors.Is(err, cm.ErrNoAddr), errors.Is(err, verbs.ErrInvalid):
		return usageError{err}
	case errors.As(err, &reject) && reject.Reason == cm.ReasonInvalidService:
		kind, _, _ := strings.Cut(dev.Name(), ":")
		host, _, _ := net.SplitHostPort(reject.Address)
		return fmt.Errorf("%w: start %s there first, with -d %s:%s", err, server, kind, host)
	case errors.Is(err, cm.ErrTimeout):
		return fmt.Errorf("%w: is the address right, does %s run there, with the same kind of device, does its port get through (UDP 4791 of roce:)?", err, server)
	}
	return err
}

// controlError explains why there is no control connection over TCP; command is what has to
// run at the other side.
func controlError(err error, command string) error {
	switch {
	case errors.As(err, new(*net.DNSError)):
		return usagef("%w: give a name that resolves, or an address", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: start `%s` there first", err, command)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("%w: no such host can be reached from here: is the address right?", err)
	case errors.As(err, new(*net.OpError)):
		return fmt.Errorf("%w: is the address right, does `%s` run there, does its port get through?", err, command)
	}
	return err
}

// portNumber is a flag: a port.
type portNumber struct {
	n     *uint16
	least uint64
}

func (p portNumber) String() string {
	if p.n == nil {
		return ""
	}
	return strconv.Itoa(int(*p.n))
}

// Type is the word for the value in a command's help.
func (p portNumber) Type() string { return "port" }

// Set parses a number.
func (p portNumber) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < p.least {
		return fmt.Errorf("%q is no port: give %d to 65535", text, p.least)
	}
	*p.n = uint16(n)
	return nil
}

// addPortFlag adds --port to a command; without any port 0, which lets the system choose, is
// none.
func addPortFlag(c *cobra.Command, p *uint16, standard uint16, usage string, any bool) {
	least := uint64(1)
	if any {
		least = 0
	}
	*p = standard
	c.Flags().VarP(portNumber{p, least}, "port", "p", usage)
}

// listenError explains why a port cannot be listened on: a fault of the command line.
func listenError(err error) error { return usageError{err} }
