// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Op is the measured operation.
type Op string

// The operations.
const (
	Send        Op = "send"
	Write       Op = "write"
	Read        Op = "read"
	FetchAdd    Op = "fetch_add"
	CompareSwap Op = "cmp_swap"
)

// String returns the operation's name in tables.
func (o Op) String() string {
	switch o {
	case Send:
		return "SEND"
	case Write:
		return "WRITE"
	case Read:
		return "READ"
	case FetchAdd:
		return "FETCH_ADD"
	case CompareSwap:
		return "CMP_SWAP"
	}
	return string(o)
}

// atomic reports whether o works on 8 bytes.
func (o Op) atomic() bool { return o == FetchAdd || o == CompareSwap }

// fetches reports whether o brings data back, so that its target sends nothing by itself.
func (o Op) fetches() bool { return o == Read || o.atomic() }

// Mode is the quantity that is measured of an operation.
type Mode string

// The modes.
const (
	Bandwidth Mode = "bw"
	Latency   Mode = "lat"
)

// Transport is the service of the queue pairs, by name.
type Transport string

// The transports.
const (
	RC Transport = "RC"
	UC Transport = "UC"
	UD Transport = "UD"
)

func (t Transport) qpType() verbs.QPType {
	return map[Transport]verbs.QPType{RC: verbs.RC, UC: verbs.UC, UD: verbs.UD}[t]
}

// MaxSize is the maximum message size in bytes.
const MaxSize = 1 << 30

// warmupBytes limits the warm-up of bandwidth measurements.
const warmupBytes = 32 << 20

// Config describes a measurement. The client decides it for both sides. The zero value of all fields
// but Op and Mode stands for perftest's default.
type Config struct {
	Op        Op        `json:"op"`
	Mode      Mode      `json:"mode"`
	Transport Transport `json:"transport"` // empty: RC

	Size     int           `json:"size_bytes"`            // bytes of a message; 0: 65536, 2 for latency, 8 for atomics
	Iters    int           `json:"iters,omitempty"`       // messages per queue pair, or round trips
	Duration time.Duration `json:"duration_ns,omitempty"` // instead of Iters
	Warmup   int           `json:"warmup,omitempty"`      // messages or round trips before the clock starts

	// messages of up to this many bytes are posted inline; -1: none, 0: none, or for latency as many as perftest's 220
	Inline   int  `json:"inline_bytes"`
	TxDepth  int  `json:"tx_depth"`      // sends outstanding
	RxDepth  int  `json:"rx_depth"`      // receives posted
	QPs      int  `json:"qps"`           // queue pairs
	PostList int  `json:"post_list"`     // work requests posted in one call
	CQMod    int  `json:"cq_moderation"` // sends for one completion
	Both     bool `json:"bidirectional,omitempty"`
	Events   bool `json:"events,omitempty"` // sleep on completion events instead of polling

	MTU         int `json:"mtu,omitempty"` // path MTU in bytes; 0: the largest of both ports
	Outstanding int `json:"outstanding"`   // READs and atomics in flight
}

// WithDefaults returns c with every field set that has a default.
func (c Config) WithDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Transport == "" {
		c.Transport = RC
	}
	lat := c.Mode == Latency
	switch {
	case c.Op.atomic():
		def(&c.Size, 8)
	case lat:
		def(&c.Size, 2)
	case c.Transport == UD:
		def(&c.Size, 1024)
	default:
		def(&c.Size, 64<<10)
	}
	def(&c.TxDepth, 128)
	def(&c.RxDepth, max(512, 4*c.TxDepth))
	def(&c.QPs, 1)
	def(&c.PostList, 1)
	def(&c.Outstanding, 16)
	switch {
	case c.Size > 8<<10:
		def(&c.CQMod, 1)
	default:
		def(&c.CQMod, max(c.PostList, min(100, c.TxDepth/2), 1))
	}
	if c.Duration == 0 {
		switch {
		case lat, c.Op.fetches():
			def(&c.Iters, 1000)
		default:
			def(&c.Iters, 5000)
		}
	}
	if lat {
		def(&c.Warmup, 100)
	} else {
		def(&c.Warmup, min(c.TxDepth*c.QPs, warmupBytes/max(c.Size, 1)+1))
	}
	if c.Op.fetches() {
		c.Inline = -1
	}
	return c
}

// Check validates c, which has its defaults set. Limits of a device are found later.
func (c *Config) Check() error {
	switch c.Op {
	case Send, Write, Read, FetchAdd, CompareSwap:
	default:
		return fmt.Errorf("no operation %q: there are send, write, read, fetch_add and cmp_swap", c.Op)
	}
	if c.Mode != Bandwidth && c.Mode != Latency {
		return fmt.Errorf("no mode %q: there are bw and lat", c.Mode)
	}
	switch {
	case c.Transport.qpType() == 0:
		return fmt.Errorf("no transport %q: there are RC, UC and UD", c.Transport)
	case c.Transport == UD && c.Op != Send:
		return fmt.Errorf("UD has no %v: it has SEND only", c.Op)
	case c.Transport == UC && c.Op.fetches():
		return fmt.Errorf("UC has no %v: it has SEND and WRITE", c.Op)
	}
	if c.MTU != 0 {
		if _, ok := verbs.MTUOf(c.MTU); !ok {
			return fmt.Errorf("no path MTU %d: there are 256, 512, 1024, 2048 and 4096", c.MTU)
		}
	}
	for _, f := range []struct {
		name        string
		v, min, max int
	}{
		{"size", c.Size, 1, MaxSize},
		{"iterations", c.Iters, 0, math.MaxInt},
		{"warm-up", c.Warmup, 0, 1 << 30},
		{"depth of the send queue", c.TxDepth, 1, 1 << 14},
		{"depth of the receive queue", c.RxDepth, 1, 1 << 14},
		{"number of queue pairs", c.QPs, 1, 1 << 14},
		{"post list", c.PostList, 1, c.TxDepth},
		{"completion moderation", c.CQMod, 1, c.TxDepth},
		{"number of outstanding reads", c.Outstanding, 1, 128},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s is %d: it can be %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	switch {
	case c.Duration < 0, c.Iters == 0 && c.Duration == 0:
		return errors.New("neither iterations nor a duration")
	case c.Iters > 0 && c.Duration > 0:
		return errors.New("iterations and a duration exclude each other")
	case c.Op.atomic() && c.Size != 8:
		return fmt.Errorf("size is %d: atomics work on 8 bytes", c.Size)
	case c.Size*c.QPs > MaxSize:
		return fmt.Errorf("%d queue pairs with messages of %d bytes need more than %d bytes of memory", c.QPs, c.Size,
			MaxSize)
	}
	if c.Mode == Latency {
		switch {
		case c.QPs > 1:
			return errors.New("latency is measured on one queue pair")
		case c.PostList > 1:
			return errors.New("latency is measured without post lists")
		case c.Both:
			return errors.New("latency has no bidirectional mode")
		}
	}
	return nil
}

// latencyInline is up to how many bytes messages are posted inline when latency is measured.
const latencyInline = 220

// inlineOn returns c.Inline for a device that takes at most so many bytes inline.
func (c *Config) inlineOn(most int) int {
	if c.Inline == 0 && c.Mode == Latency {
		return min(latencyInline, most)
	}
	return max(c.Inline, 0)
}

// inline reports whether messages are posted inline.
func (c *Config) inline() bool { return c.Size <= c.Inline }

// mtu returns the path MTU for a device whose port has the given active MTU.
func (c *Config) mtu(active verbs.MTU) verbs.MTU {
	if m, ok := verbs.MTUOf(c.MTU); ok {
		return m
	}
	return active
}

// counted reports whether the receiving side knows how many messages arrived.
func (c *Config) counted() bool { return c.Op == Send }
