// SPDX-License-Identifier: Apache-2.0

// Package ramjet is RDMA in user space: open a device by name, then use package verbs.
//
//	dev, err := ramjet.Open("roce:192.0.2.7")
package ramjet

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes Open.
type Option func(*options)

type options struct {
	trace   *trace.Writer
	tls     *tls.Config
	refused func(netip.AddrPort, error)
}

// WithTrace writes every packet of the device to w.
func WithTrace(w *trace.Writer) Option { return func(o *options) { o.trace = w } }

// WithTLS is what devices of kind iwarps need: a certificate with its key, and RootCAs; see
// [iwarp.Options]. Without it the files are used that the environment names in
// RAMJET_TLS_CERT, RAMJET_TLS_KEY and RAMJET_TLS_CA.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// WithRefused has f hear of peers that dialed a device of kind iwarps and were turned away by
// TLS. Several goroutines may call it at once.
func WithRefused(f func(peer netip.AddrPort, err error)) Option {
	return func(o *options) { o.refused = f }
}

// Open opens a device by name: its kind, a colon, and what that kind needs.
//
//	roce:192.0.2.7   RoCEv2 on a local IPv4 address
//	roce:fd09::1     RoCEv2 on a local IPv6 address
//	iwarp:192.0.2.7  iWARP over TCP on a local address
//	iwarps:192.0.2.7 the same inside TLS 1.3, with certificates on both sides
//	iwarp+sctp:192.0.2.7  iWARP over SCTP in UDP
//	iwarp:192.0.2.7?congestion=cubic&fpdu=1460
//	                 the same with options; package iwarp says which
func Open(name string, opts ...Option) (*verbs.Device, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	kind, rest, ok := strings.Cut(name, ":")
	if !ok {
		return nil, fmt.Errorf("ramjet: %q is no device name: it needs a kind and a colon, such as roce:127.0.0.1", name)
	}
	switch kind {
	case "roce":
		return roce.Open(rest, &roce.Options{Trace: o.trace})
	case "iwarp", "iwarps", "iwarp+sctp":
		return openIWARP(name, kind, rest, &o)
	}
	return nil, fmt.Errorf("ramjet: %q: no device kind %q: there are roce, iwarp, iwarps and iwarp+sctp", name, kind)
}

func openIWARP(name, kind, address string, o *options) (_ *verbs.Device, err error) {
	if o.trace != nil {
		return nil, fmt.Errorf("ramjet: %q: %w: an iWARP device has no packets of its own to trace: capture its connections", name, verbs.ErrNotSupported)
	}
	opt := &iwarp.Options{Refused: o.refused, SCTP: kind == "iwarp+sctp"}
	if kind == "iwarps" {
		if opt.TLS = o.tls; opt.TLS == nil {
			if opt.TLS, err = iwarp.LoadTLS(os.Getenv("RAMJET_TLS_CERT"), os.Getenv("RAMJET_TLS_KEY"), os.Getenv("RAMJET_TLS_CA")); err != nil {
				return nil, fmt.Errorf("ramjet: %q: %w (RAMJET_TLS_CERT, RAMJET_TLS_KEY and RAMJET_TLS_CA name the files)", name, err)
			}
		}
	}
	return iwarp.Open(address, opt)
}
