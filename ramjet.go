// SPDX-License-Identifier: Apache-2.0

// Package ramjet is RDMA in user space: open a device by name, then use package verbs.
//
//	dev, err := ramjet.Open("roce:192.0.2.7")
package ramjet

import (
	"crypto/tls"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes Open.
type Option func(*options)

type options = kinds.Options

// WithTrace writes every packet of the device to w, or every stream.
func WithTrace(w *trace.Writer) Option { return func(o *options) { o.Trace = w } }

// WithTLS is what devices of kind iwarps need: a certificate with its key, and RootCAs; see
// [github.com/ramjet-rdma/ramjet/iwarp.Options]. Without it the files are used that the environment names in
// RAMJET_TLS_CERT, RAMJET_TLS_KEY and RAMJET_TLS_CA.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.TLS = c } }

// WithRefused has f hear of peers that dialed a device of kind iwarps and were turned away by
// TLS. Several goroutines may call it at once.
func WithRefused(f func(peer netip.AddrPort, err error)) Option {
	return func(o *options) { o.Refused = f }
}

// WithKernel is what devices of kind kernel need: the Open function of package kernel. A program that gives it
// needs the dynamic linker and C library of the system, which Ramjet does without otherwise.
//
//	ramjet.Open("kernel:mlx5_0", ramjet.WithKernel(kernel.Open))
func WithKernel(open func(name string) (*verbs.Device, error)) Option {
	return func(o *options) { o.Kernel = open }
}

// Best returns the names of this host's devices by which a peer's IP address can be reached, the
// fastest first: shared memory if the address is this host's, which the peer's device has to be too,
// then networks, from the local address that the system would send from. It sends nothing, and
// whether the peer has such a device nobody knows. [Open] opens what it is told: the choice is the
// program's.
func Best(peer netip.Addr) ([]string, error) {
	found, err := kinds.Best(peer)
	var names []string
	for _, n := range found {
		names = append(names, n.String())
	}
	return names, err
}

// Open opens a device by name: its kind, a colon, and what that kind needs.
//
//	roce:192.0.2.7   RoCEv2 on a local IPv4 address
//	roce:fd09::1     RoCEv2 on a local IPv6 address
//	iwarp:192.0.2.7  iWARP over TCP on a local address
//	iwarps:192.0.2.7 the same inside TLS 1.3, with certificates on both sides
//	iwarp+sctp:192.0.2.7  iWARP over SCTP in UDP
//	kernel:mlx5_0    RDMA hardware, or another RDMA device of the kernel: needs [WithKernel]
//	shm:             memory that processes of this host share
//	iwarp:192.0.2.7?congestion=cubic&fpdu=1460
//	                 the same with options; packages iwarp and shm say which
func Open(name string, opts ...Option) (*verbs.Device, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return kinds.Open(name, &o)
}
