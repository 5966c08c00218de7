// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Way is how a target learns of a WRITE.
type Way string

// The ways.
const (
	Bytes     Way = "bytes"     // it polls a byte for each peer
	Immediate Way = "immediate" // WRITE with immediate data; it polls the completion queue of one shared receive queue
	Event     Way = "event"     // the same, but it sleeps until the queue's completion channel has an event
)

// Ways are all ways.
var Ways = []Way{Bytes, Immediate, Event}

// String returns the way's name in tables.
func (w Way) String() string {
	switch w {
	case Bytes:
		return "polling a byte per peer"
	case Immediate:
		return "immediate, polling"
	case Event:
		return "immediate, sleeping"
	}
	return string(w)
}

const (
	// MaxPeers is the maximum number of peers.
	MaxPeers = 1 << 14
	// MaxStride is the maximum distance between the bytes of two peers.
	MaxStride = 4096
	// DefaultStride is a cache line of most processors.
	DefaultStride = 64
	// DefaultIterations is how many WRITEs are measured in each way, for each number of peers.
	DefaultIterations = 2000

	// Ramjet's devices sleep between polls while far more threads want to run than there are processors
	// (docs/decisions/0021-waiting.md). The change from one way to another starts some.
	settleTime = 150 * time.Millisecond
	// lookPatience limits how long looks are timed if others disturb them.
	lookPatience = time.Second
)

// Config is the choice of the measurement.
type Config struct {
	// measured in ascending order; empty: 1 to 4,096 in powers of two
	Peers      []int         `json:"peers"`
	Iterations int           `json:"iterations,omitempty"`  // WRITEs in each way, for each number of peers
	Duration   time.Duration `json:"duration_ns,omitempty"` // of each way instead of Iterations
	Stride     int           `json:"stride_bytes"`          // from one peer's byte to the next; 0: DefaultStride

	settle   time.Duration // how long a way is used before it is measured
	patience time.Duration // how long looks are timed at most
	observe  time.Duration // how long the processors are observed while nothing arrives
}

// WithDefaults returns c with every field set that has a default, and its numbers of peers in order.
func (c Config) WithDefaults() Config {
	c.Peers = slices.Compact(slices.Sorted(slices.Values(c.Peers)))
	if len(c.Peers) == 0 {
		for n := 1; n <= 4096; n *= 2 {
			c.Peers = append(c.Peers, n)
		}
	}
	if c.Stride == 0 {
		c.Stride = DefaultStride
	}
	if c.Iterations == 0 && c.Duration == 0 {
		c.Iterations = DefaultIterations
	}
	c.settle, c.patience, c.observe = settleTime, lookPatience, busyTime
	return c
}

// Check validates c, which has its defaults set. Limits of a device are found later.
func (c *Config) Check() error {
	for _, n := range c.Peers {
		if n < 1 || n > MaxPeers {
			return fmt.Errorf("number of peers is %d: it can be 1 to %d", n, MaxPeers)
		}
	}
	switch {
	case c.Stride < 1 || c.Stride > MaxStride:
		return fmt.Errorf("stride is %d: it can be 1 to %d", c.Stride, MaxStride)
	case c.Iterations < 0:
		return fmt.Errorf("iterations is %d: it has to be 1 or more", c.Iterations)
	case c.Duration < 0, c.Iterations == 0 && c.Duration == 0:
		return errors.New("neither iterations nor a duration")
	case c.Iterations > 0 && c.Duration > 0:
		return errors.New("iterations and a duration exclude each other")
	}
	return nil
}
