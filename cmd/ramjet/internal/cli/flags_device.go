// SPDX-License-Identifier: Apache-2.0

package cli

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

// DeviceFlags are the flags of the commands that open one device.
type DeviceFlags struct {
	Device string
	PCAP   string
	Peer   string // where the command connects to, HOST or HOST:PORT; empty: it waits
	Local  string // the address that it waits at; empty: the device's
}

// Add adds --device and --pcap to a command.
func (f *DeviceFlags) Add(c *cobra.Command) {
	c.Flags().StringVarP(&f.Device, "device", "d", kinds.Default().NameAt("127.0.0.1").String(),
		"`device` to open, such as roce:192.0.2.7, or that of $"+kinds.DeviceVariable+"; `ramjet devices` lists them")
	AddPcapFlag(c, &f.PCAP, EveryPacket)
}

// OnlyKind marks the flag --device of a command that takes a kind, and chooses the addresses itself.
func OnlyKind(c *cobra.Command) { c.Flags().SetAnnotation("device", kindAnnotation, nil) }

// TakesKind reports whether a command's --device is a kind.
func TakesKind(c *cobra.Command) bool {
	_, ok := c.Flags().Lookup("device").Annotations[kindAnnotation]
	return ok
}

const kindAnnotation = "ramjet-kind"

// deviceFromEnvironment gives --device the device that the environment names, or its kind if the command
// takes kinds. It does nothing if the flag is given, or the command has none.
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
	if TakesKind(c) {
		value = n.Kind.Name + ":"
	}
	return true, c.Flags().Set("device", value)
}

// With calls run with the device. Then it closes the device and the recording, if any.
func (f *DeviceFlags) With(c *cobra.Command, run func(dev *verbs.Device) error) (err error) {
	log := c.ErrOrStderr()
	name, err := f.choose(c.Context(), log)
	if err != nil {
		return err
	}
	dev, done, err := OpenDevice(name, f.PCAP, log)
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
func (f *DeviceFlags) choose(ctx context.Context, log io.Writer) (string, error) {
	n, err := kinds.Parse(f.Device)
	if err != nil || !n.Unnamed() {
		return f.Device, nil // if it is wrong, opening it says so
	}
	address, choose := f.Peer, kinds.Name.Toward
	if address == "" {
		address, choose = f.Local, kinds.Name.On
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	if address == "" {
		return f.Device, nil
	}
	addr, err := PeerAddr(ctx, address)
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

// KindOnly reports whether no device is named, or only its kind, such as "iwarp:", perhaps with
// options, "iwarp:?congestion=cubic".
func (f *DeviceFlags) KindOnly() bool {
	_, rest, named := strings.Cut(f.Device, ":")
	return f.Device == "" || named && (rest == "" || rest[0] == '?')
}

// Kind returns the kind of the device, and its options with the question mark.
func (f *DeviceFlags) Kind() (k *kinds.Kind, options string, err error) {
	if f.Device == "" {
		return kinds.Default(), "", nil
	}
	n, err := kinds.Parse(f.Device)
	if err != nil {
		return nil, "", err
	}
	_, options = n.Split()
	return n.Kind, options, nil
}

// OpenDevice opens a device, and a recording if pcap is not empty. done closes both and logs how
// many packets were recorded; its error is that of the recording. Calling it twice is harmless.
func OpenDevice(name, pcap string, log io.Writer) (dev *verbs.Device, done func() error, err error) {
	rec, err := NewRecording(pcap, name)
	if err != nil {
		return nil, nil, err
	}
	opts, err := tlsOptions(name, log)
	if err == nil {
		dev, err = ramjet.Open(name, append(opts, rec.options()...)...)
	}
	if err != nil {
		rec.Discard()
		return nil, nil, usage.Of(err)
	}
	return dev, func() error {
		dev.Close()
		return rec.Finish(log)
	}, nil
}
