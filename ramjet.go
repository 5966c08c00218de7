// SPDX-License-Identifier: Apache-2.0

// Package ramjet is RDMA in user space: open a device by name, then use package verbs.
//
//	dev, err := ramjet.Open("roce:192.0.2.7")
package ramjet

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes Open.
type Option func(*options)

type options = kinds.Options

// WithTrace writes every packet of the device to w, or every stream.
func WithTrace(w *trace.Writer) Option { return func(o *options) { o.Trace = w } }

// WithTLS gives the certificates that devices of kind iwarps need: a certificate with its key, and RootCAs; see
// [github.com/ramjet-rdma/ramjet/iwarp.Options]. Without it the files are used that the environment names in
// RAMJET_TLS_CERT, RAMJET_TLS_KEY and RAMJET_TLS_CA.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.TLS = c } }

// WithLog has every failure of a queue pair logged, with its cause as far as it is known: see
// [verbs.Device.LogFailures]. Without it nothing is logged.
func WithLog(log *slog.Logger) Option { return func(o *options) { o.Log = log } }

// WithRefused has f called with each peer that dialed a device of kind iwarps and was turned away by TLS. Several
// goroutines may call it at once.
func WithRefused(f func(peer netip.AddrPort, err error)) Option {
	return func(o *options) { o.Refused = f }
}

// WithCongestion chooses the congestion control of queue pairs that choose none (verbs.QPInit), with its parameters,
// for devices of kind roce: "dcqcn", or "swift,base_target=100". Without it the device uses the control that the
// environment names in RAMJET_CC, or else a window for each host. A control in a device's name comes first:
// docs/congestion.md.
func WithCongestion(control string) Option { return func(o *options) { o.Congestion = control } }

// WithFaults has the device injected with faults: of its network, of calls, work requests and completions, and
// asynchronous events. "loss 1%; fail reg_mr ENOMEM nth 3" is two of them: docs/faults.md has the language. Without it
// the faults of the environment's RAMJET_FAULTS are injected. Each fault that strikes is logged, see [WithFaultLog],
// and how often each has struck as the device is closed. A fault that makes no sense with the device is an error, of
// [verbs.ErrNotSupported].
func WithFaults(text string) Option { return func(o *options) { o.Faults = text } }

// WithFaultLog has faults that strike logged to w, a line each. The lines are a text for [WithFaults], by which the
// same faults strike again. Without it the log is the file that the environment names in RAMJET_FAULT_LOG, or standard
// error.
func WithFaultLog(w io.Writer) Option { return func(o *options) { o.FaultLog = w } }

// WithNIC has the device act as a NIC: work requests keep their places in queues until their completions have been
// polled, a completion queue that overflows fails with its queue pairs, and nothing is more generous than the
// specification. It shows assumptions of a program that do not hold on hardware: docs/nic.md. Without it devices act
// so if the environment has RAMJET_NIC=1. Only devices in software do; others are an error, of [verbs.ErrNotSupported].
func WithNIC() Option { return func(o *options) { o.NIC = true } }

// WithCallLog has the calls of the device and its objects logged to w, a line each, by their names in C and with their
// arguments, results and durations: the calls of package verbs, and of package cm. filter chooses among them, such as
// "ibv_*_qp errors", and may ask for JSON: docs/log.md. Without this option the log is the one that the environment
// asks for in RAMJET_LOG and RAMJET_LOG_FILTER. Several goroutines may write to w at once, a whole line each time.
func WithCallLog(w io.Writer, filter string) Option {
	return func(o *options) { o.Calls, o.CallFilter = w, filter }
}

// WithChecks has mistakes in the use of the device reported to w: memory that changes while it is posted, queues that
// hardware would not hold, accesses without order, and others. options are as in RAMJET_CHECK, such as
// "off=leak"; docs/check.md has the rules. Each Write has one report, and several goroutines report in turn. Without
// this option the device is checked if the environment has RAMJET_CHECK. It costs time and memory: measure without.
func WithChecks(w io.Writer, options string) Option {
	return func(o *kinds.Options) { o.Checks, o.CheckOptions = w, options }
}

// EndChecks reports findings that only the end of a program shows, on devices that are checked, by [WithChecks] or by
// the environment's RAMJET_CHECK: objects that are left, failed work requests with unpolled completions, accesses
// whose order was not certain until now. A program in Go calls it last, as nothing runs by itself when it ends. It
// returns the status for a program that has not failed: 0 without findings, 66 or the option exitcode with some.
func EndChecks() int { return kinds.EndChecks() }

// SetFaults replaces the faults of a device that is open; an empty text ends them. They count, and their times begin,
// anew. log receives faults that strike; nil: the log stays as it is.
func SetFaults(dev *verbs.Device, text string, log io.Writer) error {
	return kinds.SetFaults(dev, text, log)
}

// WithKernel has the function open devices of kind kernel, in place of package kernel's, which a program that imports
// the package has without this option.
func WithKernel(open func(name string) (*verbs.Device, error)) Option {
	return func(o *options) { o.Kernel = open }
}

// Choice is a device by which a peer can be reached.
type Choice struct {
	Name   string `json:"name"`   // as Open takes it
	Reason string `json:"reason"` // why it can, and where in the order it is
}

// Best returns the devices that would reach a peer's IP address from this host, in order of preference and
// each with the reason: shared memory if the address is this host's; the kernel's RDMA devices on the
// interface that the route takes, hardware first, with the GID to use; then devices in software, on the
// local address that the system would send from. It sends nothing, so it does not know whether the peer has
// such a device: both sides need the same kind. [Open] opens the device that it is given: the choice is the
// program's.
func Best(peer netip.Addr) (list []Choice, err error) {
	found, err := kinds.Best(peer)
	for _, c := range found {
		list = append(list, Choice(c))
	}
	return list, err
}

// OpenFor opens the device to reach a peer's IP address with: the device that the environment names in
// RAMJET_DEVICE, or else the first that [Best] returns. If that cannot be opened it is an error, which names
// the other devices: none is opened in its place. The choice names the device that was opened, with the reason.
//
//	dev, choice, err := ramjet.OpenFor(netip.MustParseAddr("192.0.2.9"))
//	conn, err := cm.Dial(ctx, dev, "192.0.2.9:7471")
func OpenFor(peer netip.Addr, opts ...Option) (*verbs.Device, Choice, error) {
	name, set, err := kinds.FromEnvironment()
	if err != nil {
		return nil, Choice{}, fmt.Errorf("ramjet: %w", err)
	}
	if set {
		dev, err := Open("", opts...)
		return dev, Choice{Name: name.String(), Reason: kinds.DeviceVariable + " names it"}, err
	}
	choices, err := kinds.ChoicesFor(peer)
	if err != nil {
		return nil, Choice{}, fmt.Errorf("ramjet: %w", err)
	}
	if len(choices.Best) == 0 {
		return nil, Choice{}, fmt.Errorf("ramjet: no device of this host reaches %v: %v", peer, choices.Unusable)
	}
	first := Choice(choices.Best[0])
	dev, err := Open(first.Name, opts...)
	if err != nil {
		var others []string
		for _, c := range choices.Best[1:] {
			others = append(others, c.Name)
		}
		if len(others) > 0 {
			err = fmt.Errorf("%w (to use another: %s=%s)", err, kinds.DeviceVariable, strings.Join(others, " or "))
		}
		return nil, first, fmt.Errorf("ramjet: of the devices that reach %v the first is %s: %w", peer, first.Name, err)
	}
	return dev, first, nil
}

// Open opens a device by name: its kind, a colon, and the kind's own part, such as an address.
//
//	roce:192.0.2.7   RoCEv2 on a local IPv4 address
//	roce:fd09::1     RoCEv2 on a local IPv6 address
//	iwarp:192.0.2.7  iWARP over TCP on a local address
//	iwarps:192.0.2.7 the same inside TLS 1.3, with certificates on both sides
//	iwarp+sctp:192.0.2.7  iWARP over SCTP in UDP
//	kernel:mlx5_0    RDMA hardware, or another RDMA device of the kernel, in programs that import package kernel
//	shm:             memory that processes of this host share
//	iwarp:192.0.2.7?congestion=cubic&fpdu=1460
//	                 the same with options; packages iwarp, roce and shm say which
//	roce:192.0.2.7?cc=dcqcn  RoCEv2 with a congestion control
//	roce:192.0.2.7?lanes=4   RoCEv2 that moves data in four threads at once
//
// An empty name stands for the device that the environment names in RAMJET_DEVICE, so that one program
// runs on any, chosen where it runs.
func Open(name string, opts ...Option) (*verbs.Device, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return kinds.Open(name, &o)
}
