// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// deviceFlags are the flags of the commands that open one device.
type deviceFlags struct {
	device string
	pcap   string
	peer   string // where the command connects to, HOST or HOST:PORT; empty: it waits
	local  string // the address that it waits at; empty: the device's
}

// add adds --device and --pcap to a command.
func (f *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.device, "device", "d", kinds.Default().NameAt("127.0.0.1").String(), "`device` to open, such as roce:192.0.2.7, or that of $"+kinds.DeviceVariable+"; `ramjet devices` lists them")
	addPcapFlag(c, &f.pcap, everyPacket)
}

// onlyKind marks the flag --device of a command that takes a kind, and chooses the addresses itself.
func onlyKind(c *cobra.Command) { c.Flags().SetAnnotation("device", kindAnnotation, nil) }

// takesKind reports whether a command's --device is a kind.
func takesKind(c *cobra.Command) bool {
	_, ok := c.Flags().Lookup("device").Annotations[kindAnnotation]
	return ok
}

const kindAnnotation = "ramjet-kind"

// deviceFromEnvironment gives --device the device that the environment names, or its kind where that is
// what a command takes. It does nothing if the flag is given, or the command has none.
func deviceFromEnvironment(c *cobra.Command) (set bool, err error) {
	flag := c.Flags().Lookup("device")
	if flag == nil || flag.Changed || flag.Value.Type() != "string" {
		return false, nil
	}
	n, set, err := kinds.FromEnvironment()
	switch {
	case err != nil:
		return false, usage.Of(err)
	case !set:
		return false, nil
	}
	value := n.String()
	if takesKind(c) {
		value = n.Kind.Name + ":"
	}
	return true, c.Flags().Set("device", value)
}

// with calls run with the device. Then it closes the device and the recording, if any.
func (f *deviceFlags) with(c *cobra.Command, run func(dev *verbs.Device) error) (err error) {
	log := c.ErrOrStderr()
	name, err := f.choose(c.Context(), log)
	if err != nil {
		return err
	}
	dev, done, err := openDevice(name, f.pcap, log)
	if err != nil {
		return err
	}
	defer func() {
		if derr := done(); err == nil {
			err = derr
		}
	}()
	return run(dev)
}

// choose returns the name of the device. If --device does not say which of the kernel's devices it
// is, the peer's address or this side's decides, and the choice is written to log.
func (f *deviceFlags) choose(ctx context.Context, log io.Writer) (string, error) {
	n, err := kinds.Parse(f.device)
	if err != nil || !n.Unnamed() {
		return f.device, nil // if it is wrong, opening it says so
	}
	address, choose := f.peer, kinds.Name.Toward
	if address == "" {
		address, choose = f.local, kinds.Name.On
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	if address == "" {
		return f.device, nil
	}
	addr, err := peerAddr(ctx, address)
	if err != nil {
		return "", err
	}
	n, why, err := choose(n, addr)
	if err != nil {
		return "", usage.Of(err)
	}
	if why != "" {
		fmt.Fprintln(log, why)
	}
	return n.String(), nil
}

// kindOnly reports whether no device is named, or only its kind, such as "iwarp:", perhaps with
// options, "iwarp:?congestion=cubic".
func (f *deviceFlags) kindOnly() bool {
	_, rest, named := strings.Cut(f.device, ":")
	return f.device == "" || named && (rest == "" || rest[0] == '?')
}

// kind returns the kind of the device, and its options with the question mark.
func (f *deviceFlags) kind() (k *kinds.Kind, options string, err error) {
	if f.device == "" {
		return kinds.Default(), "", nil
	}
	n, err := kinds.Parse(f.device)
	if err != nil {
		return nil, "", err
	}
	_, options = n.Split()
	return n.Kind, options, nil
}

// openDevice opens a device, and a recording if pcap is not empty. done closes both and logs how
// many packets were recorded; its error is that of the recording. Calling it twice is harmless.
func openDevice(name, pcap string, log io.Writer) (dev *verbs.Device, done func() error, err error) {
	rec, err := newRecording(pcap, name)
	if err != nil {
		return nil, nil, err
	}
	opts, err := tlsOptions(name, log)
	if err == nil {
		dev, err = ramjet.Open(name, append(opts, rec.options()...)...)
	}
	if err != nil {
		rec.discard()
		return nil, nil, usage.Of(err)
	}
	return dev, func() error {
		dev.Close()
		return rec.finish(log)
	}, nil
}
