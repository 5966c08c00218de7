// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// DialError explains why dialing from dev failed. server is the command that has to run on the
// other side.
func DialError(err error, dev *verbs.Device, server string) error {
	reject := (*cm.RejectError)(nil)
	switch {
	case errors.Is(err, cm.ErrNoAddr), errors.Is(err, verbs.ErrInvalid):
		return usage.Of(err)
	case errors.As(err, &reject) && reject.Reason == cm.ReasonInvalidService:
		host, _, _ := net.SplitHostPort(reject.Address)
		return fmt.Errorf("%w: start %s there first, with -d %v", err, server, kindOf(dev).NameAt(host))
	case errors.Is(err, cm.ErrTimeout):
		ask := ""
		if passes := kindOf(dev).Passes; passes != "" {
			ask = ", does " + passes + " get through"
		}
		return fmt.Errorf("%w: is the address right, does %s run there, with the same kind of device%s?", err,
			server, ask)
	}
	return err
}

// kindOf returns the kind of an open device.
func kindOf(dev *verbs.Device) *kinds.Kind {
	n, err := kinds.Parse(dev.Name())
	if err != nil {
		panic("ramjet: an open device without a kind: " + dev.Name())
	}
	return n.Kind
}

// ControlError explains why the control connection over TCP failed. command has to run on the other
// side.
func ControlError(err error, command string) error {
	switch {
	case errors.As(err, new(*net.DNSError)):
		return Usagef("%w: give a name that resolves, or an address", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: start `%s` there first", err, command)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("%w: no such host can be reached from here: is the address right?", err)
	case errors.As(err, new(*net.OpError)):
		return fmt.Errorf("%w: is the address right, does `%s` run there, does its port get through?", err, command)
	}
	return err
}

// ListenError makes a port that cannot be listened on a usage error.
func ListenError(err error) error { return usage.Of(err) }
