// SPDX-License-Identifier: Apache-2.0

// Package ramjet is RDMA in user space: open a device by name, then use package verbs.
//
//	dev, err := ramjet.Open("roce:192.0.2.7")
package ramjet

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes Open.
type Option func(*options)

type options struct{ trace *trace.Writer }

// WithTrace writes every packet of the device to w.
func WithTrace(w *trace.Writer) Option { return func(o *options) { o.trace = w } }

// Open opens a device by name: its kind, a colon, and what that kind needs.
//
//	roce:192.0.2.7   RoCEv2 on a local IPv4 address
//	roce:fd09::1     RoCEv2 on a local IPv6 address
//	iwarp:192.0.2.7  iWARP over TCP on a local address
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
	case "iwarp":
		if o.trace != nil {
			return nil, fmt.Errorf("ramjet: %q: %w: an iWARP device has no packets of its own to trace: capture its TCP connections", name, verbs.ErrNotSupported)
		}
		return iwarp.Open(rest, nil)
	}
	return nil, fmt.Errorf("ramjet: %q: no device kind %q: there are roce and iwarp", name, kind)
}
