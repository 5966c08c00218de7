// SPDX-License-Identifier: Apache-2.0

// Command ramjet-nvme serves files and memory to hosts by NVMe over RDMA, and reads and writes namespaces of targets.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	c, err := newCommand().ExecuteContextC(ctx)
	stop()
	os.Exit(report(os.Stderr, c, err))
}

// runError is an error after the command line was accepted.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// report says how a command has ended, and returns the exit status: that of ramjet's commands.
func report(to io.Writer, c *cobra.Command, err error) int {
	switch {
	case err == nil:
		return 0
	case !errors.As(err, new(runError)):
		fmt.Fprintf(to, "%s: %v: `%s --help` shows what it takes\n", c.Root().Name(), err, c.CommandPath())
		return 2
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(to, "%s: interrupted\n", c.Root().Name())
		return 130 // 128 + SIGINT, as in shells
	}
	fmt.Fprintf(to, "%s: %v\n", c.Root().Name(), err)
	return 1
}

func newCommand() *cobra.Command {
	c := &cobra.Command{
		Use:           "ramjet-nvme",
		Short:         "NVMe over RDMA in user space",
		Long:          "Ramjet-nvme serves files and memory to hosts by NVMe over RDMA, and reads and writes the namespaces of targets:\nits own, and those of Linux's nvmet.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(serveCommand(), discoverCommand(), listCommand(), readCommand(), writeCommand(), benchCommand(),
		genKeyCommand())
	for _, c := range c.Commands() {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := run(c, args); err != nil {
				return runError{err}
			}
			return nil
		}
	}
	return c
}

// deviceFlag adds -d.
func deviceFlag(c *cobra.Command, device *string) {
	c.Flags().StringVarP(device, "device", "d", "", "the device, such as roce:192.0.2.7 or iwarp:192.0.2.7")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
}

// Ports of NVMe over RDMA, where an address names none.
const (
	defaultPort   = "4420"
	discoveryPort = "8009"
)

// withPort adds a port to an address that has none.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, port)
}

// host is the part that commands of a host have in common.
type host struct {
	device    string
	namespace uint32
	paths     []string
	policy    string
	opt       nvme.HostOptions
}

func (h *host) flags(c *cobra.Command) {
	deviceFlag(c, &h.device)
	c.Flags().StringVar(&h.opt.NQN, "host-nqn", "", "the NQN of this host; by default one is drawn")
}

// secretFlags adds the flags of commands that authenticate, named as those of nvme-cli.
func (h *host) secretFlags(c *cobra.Command) {
	f := c.Flags()
	f.Var(secret{&h.opt.Secret}, "dhchap-secret",
		"what this host proves to have, if the target asks for that: a secret of gen-dhchap-key")
	f.Var(secret{&h.opt.ControllerSecret}, "dhchap-ctrl-secret", "what the target has to prove to have")
}

// lossFlags adds the flags of commands that connect again when the connection is lost. They are named as those of
// nvme-cli.
func (h *host) lossFlags(c *cobra.Command) {
	f := c.Flags()
	f.DurationVar(&h.opt.KeepAlive, "keep-alive-tmo", nvme.DefaultKeepAlive,
		"after which time without a sign of this host the target gives it up")
	f.DurationVar(&h.opt.ReconnectDelay, "reconnect-delay", nvme.DefaultReconnectDelay,
		"the time between attempts to connect again")
	f.DurationVar(&h.opt.LossTimeout, "ctrl-loss-tmo", nvme.DefaultLossTimeout,
		"how long to try to connect again; negative: not at all")
	f.DurationVar(&h.opt.FastFail, "fast-io-fail-tmo", 0,
		"after which time without a connection reads and writes fail; 0: they wait")
}

func (h *host) diskFlags(c *cobra.Command) {
	h.flags(c)
	h.secretFlags(c)
	h.lossFlags(c)
	f := c.Flags()
	f.StringArrayVar(&h.paths, "path", nil, "[DEVICE=]HOST[:PORT]: another address of the subsystem, to be used together with the first; may be given again")
	f.StringVar(&h.policy, "iopolicy", string(nvme.RoundRobin),
		"which of several equally good paths a command takes: round-robin or queue-depth")
	f.Uint32VarP(&h.namespace, "namespace", "n", 1, "the namespace's number")
}

// checkSecret checks that the target can know the host's secret.
func (h *host) checkSecret() error {
	if !h.opt.Secret.IsZero() && h.opt.NQN == "" {
		return errors.New("--dhchap-secret is of no use without --host-nqn, by which the target knows the secret")
	}
	return nil
}

// dial connects to a subsystem.
func (h *host) dial(ctx context.Context, address, nqn string) (*nvme.Controller, func(), error) {
	if err := h.checkSecret(); err != nil {
		return nil, nil, err
	}
	dev, err := ramjet.Open(h.device)
	if err != nil {
		return nil, nil, err
	}
	h.opt.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := nvme.Dial(ctx, dev, withPort(address, defaultPort), nqn, h.opt)
	if err != nil {
		dev.Close()
		return nil, nil, explain(err)
	}
	return c, func() { c.Close(); dev.Close() }, nil
}

// explain says what to do about a target that refuses to connect.
func explain(err error) error {
	switch {
	case errors.Is(err, wire.ConnectInvalidHost):
		return fmt.Errorf("%w: the target lets in hosts by their NQNs: give one that it knows by --host-nqn", err)
	case errors.Is(err, wire.ConnectInvalidParameters):
		return fmt.Errorf("%w: does it have this subsystem? `ramjet-nvme discover` lists those of a target", err)
	}
	return err
}

// open opens a namespace.
func (h *host) open(ctx context.Context, address, nqn string) (*nvme.Disk, func(), error) {
	if len(h.paths) > 0 {
		return h.multipath(ctx, address, nqn)
	}
	if err := h.checkPolicy(); err != nil {
		return nil, nil, err
	}
	c, done, err := h.dial(ctx, address, nqn)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Open(ctx, h.namespace)
	if err != nil {
		done()
		return nil, nil, err
	}
	return d, done, nil
}

// checkPolicy checks the policy where there is one path, for which it is of no use.
func (h *host) checkPolicy() error {
	switch nvme.IOPolicy(h.policy) {
	case nvme.RoundRobin, nvme.QueueDepth:
		return nil
	}
	return fmt.Errorf("--iopolicy %s: take %s or %s", h.policy, nvme.RoundRobin, nvme.QueueDepth)
}

// multipath opens a namespace by several paths.
func (h *host) multipath(ctx context.Context, address, nqn string) (d *nvme.Disk, done func(), err error) {
	if err := h.checkPolicy(); err != nil {
		return nil, nil, err
	}
	if err := h.checkSecret(); err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	h.opt.Log = log
	devices := map[string]*verbs.Device{}
	end := func() {
		for _, d := range devices {
			d.Close()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	var paths []nvme.Path
	for _, p := range append([]string{address}, h.paths...) {
		device := h.device
		if before, after, ok := strings.Cut(p, "="); ok {
			device, p = before, after
		}
		if devices[device] == nil {
			dev, err := ramjet.Open(device)
			if err != nil {
				return nil, nil, err
			}
			devices[device] = dev
		}
		paths = append(paths, nvme.Path{Device: devices[device], Address: withPort(p, defaultPort)})
	}
	m, err := nvme.DialMultipath(ctx, paths, nqn, h.opt, nvme.MultipathOptions{Policy: nvme.IOPolicy(h.policy),
		PathChanged: func(p nvme.PathStatus) {
			attrs := []any{"address", p.Address, "state", p.State}
			if access, ok := p.Access[h.namespace]; ok {
				attrs = append(attrs, "ana_state", access)
			}
			if p.Err != nil {
				attrs = append(attrs, "error", p.Err)
			}
			log.Info("path", attrs...)
		}})
	if err != nil {
		return nil, nil, err
	}
	if d, err = m.Open(ctx, h.namespace); err != nil {
		m.Close()
		return nil, nil, err
	}
	return d, func() { m.Close(); end() }, nil
}

var errLength = errors.New("the length is no number of bytes, such as 4096 or 16MiB")
