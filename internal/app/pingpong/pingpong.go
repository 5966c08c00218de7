// SPDX-License-Identifier: Apache-2.0

// Package pingpong bounces messages with a peer, as `ramjet pingpong` does: another Ramjet, or
// rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong. The two
// exchange the numbers of their queue pairs over TCP.
package pingpong

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Kind is one of the four programs.
type Kind struct {
	Name string // the * in ibv_*_pingpong
	Size int    // default bytes of a message
	qp   verbs.QPType
	srq  bool
}

// Kinds are the programs.
var Kinds = []Kind{
	{"rc", 4096, verbs.RC, false},
	{"uc", 4096, verbs.UC, false},
	{"ud", 1024, verbs.UD, false},
	{"srq", 4096, verbs.RC, true},
}

// HasMTU reports whether the path MTU can be chosen, HasQPs whether there may be several queue pairs.
func (k Kind) HasMTU() bool { return k.qp != verbs.UD }
func (k Kind) HasQPs() bool { return k.srq }

// Config holds the parameters that both sides have to agree on, and options of this one.
type Config struct {
	Kind    Kind
	Port    uint16 // TCP, of the server; 0: the system chooses
	Size    int    // bytes of a message
	MTU     int    // bytes; of kinds with HasMTU
	RxDepth int    // receives to post at a time
	Iters   int    // exchanges
	NumQP   int    // queue pairs: 1 but for kinds with HasQPs
	GID     int    // row of the GID table; negative: the best one (verbs.Device.BestGID)
	Events  bool   // sleep until something completes instead of polling
	Check   bool   // compare every byte at the end

	Result func(Result) // receives the result, in place of its text; nil: it is printed
}

// Result is the measurement.
type Result struct {
	Size       int           `json:"size_bytes"` // of a message
	Iterations int           `json:"iterations"`
	QueuePairs int           `json:"queue_pairs"`
	Elapsed    time.Duration `json:"elapsed_ns"`
	Bandwidth  float64       `json:"bytes_per_second"` // both directions together
	RoundTrip  time.Duration `json:"round_trip_ns"`    // average
	Validated  bool          `json:"validated"`        // every byte was compared
}

// Run is the client of the server at host, or, without a host, the server of one client. It prints
// to out the text of rdma-core's programs. Errors of the configuration are of package usage.
func Run(ctx context.Context, dev *verbs.Device, c Config, host string, out io.Writer) error {
	p, err := newPingpong(c, dev)
	if err != nil {
		return err
	}
	return p.run(ctx, out, host)
}

// run exchanges addresses with the peer, bounces messages, and prints how long it took.
func (p *pingpong) run(ctx context.Context, out io.Writer, host string) error {
	client := host != ""
	exchange := func() error { return p.exchangeAsClient(ctx, host) }
	if !client {
		l, err := p.listen(ctx)
		if err != nil {
			return err
		}
		defer l.Close()
		exchange = func() error { return p.exchangeAsServer(ctx, l) }
	}
	addresses := out
	if p.Result != nil {
		addresses = io.Discard
	}
	for _, ep := range p.local {
		fmt.Fprintf(addresses, "  local address:  %s\n", addressText(ep))
	}
	if err := exchange(); err != nil {
		return err
	}
	for _, ep := range p.remote {
		fmt.Fprintf(addresses, "  remote address: %s\n", addressText(ep))
	}
	start := time.Now()
	if err := p.bounce(ctx, client); err != nil {
		return err
	}
	took := time.Since(start)
	seconds := took.Seconds()
	bytes := int64(p.Size) * int64(p.Iters) * 2
	if p.Result == nil {
		fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, seconds, float64(bytes)*8/seconds/1e6)
		fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", p.Iters, seconds, seconds*1e6/float64(p.Iters))
	}
	if p.Check {
		if err := p.verify(); err != nil {
			return err
		}
	}
	if p.Result != nil {
		p.Result(Result{p.Size, p.Iters, p.NumQP, took, float64(bytes) / seconds, took / time.Duration(p.Iters),
			p.Check})
	}
	return nil
}

// addressText formats an endpoint as rdma-core's programs do.
func addressText(ep verbs.Endpoint) string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s", ep.LID, uint32(ep.QPN), uint32(ep.PSN),
		netip.AddrFrom16(ep.GID))
}
