// SPDX-License-Identifier: Apache-2.0

// Command ramjet-nvme serves files and memory to hosts by NVMe over RDMA, and reads and writes namespaces of targets.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
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

// usageError is an error of the command line that shows when the command is carried out, such as a device that does not
// exist.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef is fmt.Errorf for usage errors.
func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// report says how a command has ended, and returns the exit status: that of ramjet's commands.
func report(to io.Writer, c *cobra.Command, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(to, "%s: %v\n", c.Root().Name(), err)
		return 2
	case !errors.As(err, new(runError)): // an error of the flags, which cobra has found
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
			err := run(c, args)
			if err == nil || errors.As(err, new(usageError)) {
				return err
			}
			return runError{err}
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

// openDevice opens the device that a flag names.
func openDevice(name string) (*verbs.Device, error) {
	dev, err := ramjet.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	return dev, nil
}

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

// secretFlags adds the flags of commands that authenticate, with nvme-cli's names.
func (h *host) secretFlags(c *cobra.Command) {
	f := c.Flags()
	f.Var(secret{&h.opt.Secret}, "dhchap-secret",
		"what this host proves to have, if the target asks for that: a secret of gen-dhchap-key")
	f.Var(secret{&h.opt.ControllerSecret}, "dhchap-ctrl-secret", "what the target has to prove to have")
}

// lossFlags adds the flags of commands that connect again when the connection is lost. They have nvme-cli's names.
func (h *host) lossFlags(c *cobra.Command) {
	f := c.Flags()
	f.DurationVar(&h.opt.KeepAlive, "keep-alive-tmo", nvme.DefaultKeepAlive,
		"after which time without a sign of this host the target gives it up; negative: never")
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

// check returns the error in the flags, or in the NQN of a subsystem.
func (h *host) check(nqn string) error {
	switch {
	case h.opt.Secret.IsZero() && !h.opt.ControllerSecret.IsZero():
		return usagef("--dhchap-ctrl-secret is of no use without --dhchap-secret: a target proves itself to hosts that do")
	case !h.opt.Secret.IsZero() && h.opt.NQN == "":
		return usagef("--dhchap-secret is of no use without --host-nqn, by which the target knows the secret")
	case h.opt.ReconnectDelay < 0 || h.opt.FastFail < 0:
		return usagef("--reconnect-delay %v, --fast-io-fail-tmo %v: a time is not negative", h.opt.ReconnectDelay, h.opt.FastFail)
	}
	if h.opt.NQN != "" {
		if err := nvme.CheckNQN(h.opt.NQN); err != nil {
			return usagef("--host-nqn: %w", err)
		}
	}
	if err := nvme.CheckNQN(nqn); err != nil {
		return usageError{err}
	}
	return nil
}

// dial connects to a subsystem.
func (h *host) dial(ctx context.Context, address, nqn string) (*nvme.Controller, func(), error) {
	if err := h.check(nqn); err != nil {
		return nil, nil, err
	}
	dev, err := openDevice(h.device)
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

// explain has a remedy for an address or a target that cannot be connected to.
func explain(err error) error {
	reject := (*cm.RejectError)(nil)
	switch {
	case errors.Is(err, cm.ErrNoAddr), errors.Is(err, verbs.ErrInvalid):
		return usageError{err}
	case errors.As(err, &reject) && reject.Reason == cm.ReasonInvalidService:
		return fmt.Errorf("%w: start `ramjet-nvme serve` there first, or name its port: by default serve listens at %s", err, defaultPort)
	case errors.Is(err, cm.ErrTimeout):
		return fmt.Errorf("%w: is the address right, and is a target there, with the same kind of device?", err)
	case errors.Is(err, wire.ConnectInvalidHost):
		return fmt.Errorf("%w: the target lets in hosts by their NQNs: give one that it knows by --host-nqn", err)
	case errors.Is(err, wire.ConnectInvalidParameters):
		return fmt.Errorf("%w: does it have this subsystem? `ramjet-nvme discover` lists those of a target", err)
	}
	return err
}

// explainCommand has a remedy for a command that a target refuses.
func explainCommand(err error) error {
	switch {
	case errors.Is(err, wire.NamespaceWriteProtected):
		return fmt.Errorf("%w: `ramjet-nvme serve --writable` lets hosts write", err)
	case errors.Is(err, wire.InvalidNamespace):
		return fmt.Errorf("%w: `ramjet-nvme list` shows those of a subsystem", err)
	}
	return err
}

// open opens a namespace.
func (h *host) open(ctx context.Context, address, nqn string) (*nvme.Disk, func(), error) {
	if err := h.checkDisk(); err != nil {
		return nil, nil, err
	}
	if len(h.paths) > 0 {
		return h.multipath(ctx, address, nqn)
	}
	c, done, err := h.dial(ctx, address, nqn)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Open(ctx, h.namespace)
	if err != nil {
		done()
		return nil, nil, explainCommand(err)
	}
	return d, done, nil
}

// checkDisk returns the error in the flags about a namespace and its paths.
func (h *host) checkDisk() error {
	if h.namespace == 0 {
		return usagef("--namespace 0: numbers begin at 1: `ramjet-nvme list` shows them")
	}
	switch nvme.IOPolicy(h.policy) {
	case nvme.RoundRobin, nvme.QueueDepth:
		return nil
	}
	return usagef("--iopolicy %s: take %s or %s", h.policy, nvme.RoundRobin, nvme.QueueDepth)
}

// multipath opens a namespace by several paths.
func (h *host) multipath(ctx context.Context, address, nqn string) (d *nvme.Disk, done func(), err error) {
	if err := h.check(nqn); err != nil {
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
			dev, err := openDevice(device)
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
		return nil, nil, explain(err)
	}
	if d, err = m.Open(ctx, h.namespace); err != nil {
		m.Close()
		return nil, nil, explainCommand(err)
	}
	return d, func() { m.Close(); end() }, nil
}

// parseBytes parses a flag's number of bytes.
func parseBytes(flag, text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, usagef("%s %s: write a number of bytes, such as 4096 or 16MiB", flag, text)
	}
	return int64(n), nil
}
