// SPDX-License-Identifier: Apache-2.0

// Package baseline measures bare sockets on this machine, so that this project's figures can be
// given as ratios to them, from the same run.
//
// Each measurement has two sides, in two processes: [Listen] and [Server.Serve] in one, [Run] in
// the other. Nothing here is part of the data path.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Kind is the kind of measurement.
type Kind int

const (
	// UDPPolled is a round trip of raw non-blocking sendto and recvfrom, both sides polling. Linux
	// only.
	UDPPolled Kind = iota
	// UDPSleeping is a round trip through net.UDPConn, both sides sleeping in it.
	UDPSleeping
	// UDPPackets is a flood of single datagrams by sendmmsg and polled recvmmsg, 64 per call, with
	// neither GSO nor GRO. Datagrams that arrive count. Linux only.
	UDPPackets
	// TCPPolled is a round trip of raw non-blocking send and recv on a TCP
	// connection, both sides polling. Linux only.
	TCPPolled
	// TCPSleeping is a round trip through net.Conn.
	TCPSleeping
	// TCPStream is a stream of writes to a net.Conn, read in pieces of 1 MiB.
	TCPStream
	// UDPTrains is a stream of datagrams in GSO sends as large as possible, received with GRO, both
	// sides polling, with a window of 1 MiB if the buffers hold that. Linux only.
	UDPTrains
)

var names = [...]string{"UDP polled round trip", "UDP sleeping round trip", "UDP packets", "TCP polled round trip",
	"TCP sleeping round trip", "TCP stream", "UDP trains"}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("baseline kind %d", int(k))
	}
	return names[k]
}

// Config describes a measurement. Both sides get the same one.
type Config struct {
	Kind Kind
	// Size is the bytes of a message or of a write, 1 to 65,507 for UDP.
	Size int
	// Count is the number of round trips or writes, and Duration the time. The first one reached
	// ends the measurement. Zero is no limit; one must be set. UDPPackets uses only Duration.
	Count    int
	Duration time.Duration
	// Congestion is the TCP congestion control for this connection, such as
	// "cubic" (TCP_CONGESTION, Linux only); empty is the system's.
	Congestion string
}

// Result is the client's measurement.
type Result struct {
	Messages int           // round trips, writes, or datagrams that arrived
	Bytes    int64         // payload in one direction
	Elapsed  time.Duration // from the first send to the last answer
	// Round trips, both ways together; zero for the other kinds.
	Min, Median, P99, Max time.Duration
}

// BytesPerSecond returns the payload's rate in one direction.
func (r Result) BytesPerSecond() float64 { return float64(r.Bytes) / r.Elapsed.Seconds() }

// MessagesPerSecond returns the rate of round trips, writes or datagrams.
func (r Result) MessagesPerSecond() float64 { return float64(r.Messages) / r.Elapsed.Seconds() }

// silence is how long either side waits for the other before it gives up.
const silence = 5 * time.Second

// maxSamples limits the round trips for percentiles.
const maxSamples = 1 << 20

// stop is the first byte of the last message of a UDP session; that of all others is 0.
const stop = 0xff

func (c Config) check() error {
	switch {
	case c.Size < 1, c.Size > 65507 && (c.Kind == UDPPolled || c.Kind == UDPSleeping || c.Kind == UDPPackets ||
		c.Kind == UDPTrains):
		return fmt.Errorf("baseline: %v: size %d is out of range", c.Kind, c.Size)
	case c.Duration <= 0 && (c.Count <= 0 || c.Kind == UDPPackets):
		return fmt.Errorf("baseline: %v: needs a duration or a count", c.Kind)
	}
	return nil
}

// Server is the server side.
type Server struct {
	config Config
	addr   netip.AddrPort
	serve  func(ctx context.Context) error
	close  func() error
}

// Listen opens the server side. Port 0 lets the system choose. The error wraps
// errors.ErrUnsupported if this system cannot measure c.
func Listen(c Config, local netip.AddrPort) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Server{config: c}
	var err error
	switch c.Kind {
	case UDPSleeping:
		err = s.listenUDP(local)
	case TCPSleeping, TCPStream:
		err = s.listenTCP(local)
	default:
		err = s.listenRaw(local)
	}
	if err != nil {
		return nil, fmt.Errorf("baseline: %v: %w", c.Kind, err)
	}
	return s, nil
}

// Addr returns the address to which the client connects.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Serve serves one client until it is done.
func (s *Server) Serve(ctx context.Context) error {
	if err := s.serve(ctx); err != nil {
		return fmt.Errorf("baseline: %v: %w", s.config.Kind, err)
	}
	return nil
}

// Close frees the server. Serve, if it was called, must have returned.
func (s *Server) Close() error { return s.close() }

// Run measures against a server of the same configuration. The address local
// is the one to send from; its port may be 0.
func Run(ctx context.Context, c Config, local, remote netip.AddrPort) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	run := runRaw
	switch c.Kind {
	case UDPSleeping:
		run = runUDP
	case TCPSleeping, TCPStream:
		run = runTCP
	}
	r, err := run(ctx, c, local, remote)
	if err != nil {
		return Result{}, fmt.Errorf("baseline: %v to %v: %w", c.Kind, remote, err)
	}
	return r, nil
}

// pingPong does round trips, timed one by one.
func pingPong(ctx context.Context, c Config, roundTrip func() error) (Result, error) {
	samples := make([]time.Duration, 0, min(maxSamples, max(c.Count, 1<<16)))
	start := time.Now()
	last := start
	var r Result
	for c.Count <= 0 || r.Messages < c.Count {
		if err := roundTrip(); err != nil {
			return r, err
		}
		now := time.Now()
		r.Messages++
		if len(samples) < maxSamples {
			samples = append(samples, now.Sub(last))
		}
		last = now
		if c.Duration > 0 && now.Sub(start) >= c.Duration || r.Messages&1023 == 0 && ctx.Err() != nil {
			break
		}
	}
	r.Elapsed = last.Sub(start)
	r.Bytes = int64(r.Messages) * int64(c.Size)
	slices.Sort(samples)
	r.Min, r.Max = samples[0], samples[len(samples)-1]
	r.Median, r.P99 = samples[len(samples)/2], samples[len(samples)*99/100]
	return r, ctx.Err()
}

func network(base string, a netip.AddrPort) string {
	if a.Addr().Is4() {
		return base + "4"
	}
	return base + "6"
}

func (s *Server) listenUDP(local netip.AddrPort) error {
	conn, err := net.ListenUDP(network("udp", local), net.UDPAddrFromAddrPort(local))
	if err != nil {
		return err
	}
	s.addr = netip.AddrPortFrom(local.Addr(), conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	s.close = conn.Close
	s.serve = func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
		buffer := make([]byte, s.config.Size)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return errors.Join(ctx.Err(), err)
			}
			if _, err := conn.WriteToUDPAddrPort(buffer[:n], from); err != nil {
				return err
			}
			if buffer[0] == stop {
				return nil
			}
		}
	}
	return nil
}

func runUDP(ctx context.Context, c Config, local, remote netip.AddrPort) (Result, error) {
	conn, err := net.ListenUDP(network("udp", local), net.UDPAddrFromAddrPort(local))
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	limit := silence
	if c.Duration > 0 {
		limit += c.Duration
	}
	message, answer := make([]byte, c.Size), make([]byte, c.Size)
	trips := 0
	roundTrip := func() error {
		// Setting a deadline each time would affect the measurement.
		if trips%4096 == 0 {
			conn.SetDeadline(time.Now().Add(limit))
		}
		trips++
		if _, err := conn.WriteToUDPAddrPort(message, remote); err != nil {
			return err
		}
		_, _, err := conn.ReadFromUDPAddrPort(answer)
		return err
	}
	r, err := pingPong(ctx, c, roundTrip)
	message[0] = stop
	return r, errors.Join(err, roundTrip())
}

func (s *Server) listenTCP(local netip.AddrPort) error {
	lc := net.ListenConfig{Control: congestionControl(s.config.Congestion)}
	l, err := lc.Listen(context.Background(), network("tcp", local), local.String())
	if err != nil {
		return err
	}
	s.addr = l.Addr().(*net.TCPAddr).AddrPort()
	s.close = l.Close
	s.serve = func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { l.(*net.TCPListener).SetDeadline(time.Unix(1, 0)) })()
		conn, err := l.Accept()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
		if s.config.Kind == TCPStream {
			err = drain(conn)
		} else {
			err = echo(conn, make([]byte, s.config.Size))
		}
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

func runTCP(ctx context.Context, c Config, local, remote netip.AddrPort) (Result, error) {
	d := net.Dialer{
		Timeout:   silence,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local.Addr(), 0)),
		Control:   congestionControl(c.Congestion),
	}
	conn, err := d.DialContext(ctx, network("tcp", remote), remote.String())
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if c.Kind == TCPStream {
		return stream(conn.(*net.TCPConn), c)
	}
	message := make([]byte, c.Size)
	return pingPong(ctx, c, func() error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		return readFull(conn, message)
	})
}
