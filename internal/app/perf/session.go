// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// version is the version of the control protocol.
const version = 3

// message is a line of JSON on the control connection; one of its fields is set.
type message struct {
	Job      *job      `json:"job,omitempty"`
	Endpoint *endpoint `json:"endpoint,omitempty"`
	Ready    bool      `json:"ready,omitempty"`
	Done     *uint64   `json:"done,omitempty"` // number of messages sent, including the warm-up
	Report   *Report   `json:"report,omitempty"`
	Address  string    `json:"address,omitempty"` // of a baseline's server
	Error    string    `json:"error,omitempty"`
}

// job is the client's next request.
type job struct {
	Version  int              `json:"version"`
	Config   *Config          `json:"config,omitempty"`
	Baseline *baseline.Config `json:"baseline,omitempty"`
}

// session is a control connection.
type session struct {
	conn   net.Conn
	dev    *verbs.Device
	enc    *json.Encoder
	in     chan message // closed when the connection ends
	active atomic.Pointer[side]
}

func newSession(conn net.Conn, dev *verbs.Device) *session {
	x := &session{conn: conn, dev: dev, enc: json.NewEncoder(conn), in: make(chan message, 4)}
	go x.read()
	return x
}

// maxLine limits a message: a few hundred bytes per queue pair.
const maxLine = 8 << 20

// read receives messages until the connection ends. Messages for a running loop go there, the rest
// to expect.
func (x *session) read() {
	defer close(x.in)
	lines := bufio.NewScanner(x.conn)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			m = message{Error: "not a message of ramjet perf: " + err.Error()}
		}
		s := x.active.Load()
		switch {
		case s != nil && m.Done != nil:
			s.peerSent.Store(*m.Done)
			s.halt.Or(peerDone)
			s.wake()
			continue
		case s != nil && m.Error != "":
			s.fail(peerError(m.Error))
		}
		select {
		case x.in <- m:
		default: // more than anybody asked for
			x.conn.Close()
		}
	}
	if s := x.active.Load(); s != nil {
		s.fail(errPeerGone)
	}
}

// peerError is an error of the other side.
type peerError string

func (e peerError) Error() string { return "the other side: " + string(e) }

func (x *session) send(m message) error { return x.enc.Encode(m) }

// expect returns the next message. An error that it carries is returned as an error.
func (x *session) expect(ctx context.Context) (message, error) {
	select {
	case m, ok := <-x.in:
		switch {
		case !ok:
			return m, errPeerGone
		case m.Error != "":
			return m, peerError(m.Error)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

// report sends the other side the reason why this one gives up.
func (x *session) report(err error) {
	if !errors.Is(err, errPeerGone) && !errors.As(err, new(peerError)) {
		x.conn.SetWriteDeadline(time.Now().Add(time.Second))
		x.send(message{Error: err.Error()})
		x.conn.SetWriteDeadline(time.Time{})
	}
}

// measure is one side of a measurement.
func (x *session) measure(ctx context.Context, c Config, client bool, started func(*side)) (*Result, error) {
	s, err := newSide(x.dev, c, client, hostOf(x.conn.LocalAddr()))
	if err != nil {
		return nil, err
	}
	defer s.free()
	s.ctx, s.wake = context.WithCancel(ctx)
	defer s.wake()
	defer context.AfterFunc(ctx, func() { s.fail(ctx.Err()) })()

	if err := x.send(message{Endpoint: &s.local}); err != nil {
		return nil, err
	}
	m, err := x.expect(ctx)
	if err != nil {
		return nil, err
	}
	if m.Endpoint == nil {
		return nil, errUnexpected
	}
	if err := s.connect(ctx, *m.Endpoint); err != nil {
		return nil, err
	}
	x.active.Store(s)
	defer x.active.Store(nil)
	if err := x.send(message{Ready: true}); err != nil {
		return nil, err
	}
	if m, err = x.expect(ctx); err != nil {
		return nil, err
	}
	if !m.Ready {
		return nil, errUnexpected
	}
	if client || c.Both {
		go s.watchdog(s.ctx)
	}
	if started != nil {
		started(s)
	}
	local, trips, err := x.loop(s)
	if err != nil {
		return nil, err
	}
	if err := x.send(message{Report: &local}); err != nil {
		return nil, err
	}
	if m, err = x.expect(ctx); err != nil {
		return nil, err
	}
	if m.Report == nil {
		return nil, errUnexpected
	}
	if !client {
		return newResult(s.Config, s.path.Bytes(), *m.Report, local, nil), nil
	}
	r := newResult(s.Config, s.path.Bytes(), local, *m.Report, trips)
	r.QPs, _ = x.dev.QPStats()
	return r, nil
}

var errUnexpected = errors.New("the other side is no ramjet perf of this version: start the same version on both sides")

// loop runs the loop of s and verifies the data.
func (x *session) loop(s *side) (Report, *hdrhistogram.Histogram, error) {
	var sendErr error
	sent := func(n uint64) { sendErr = x.send(message{Done: &n}) }
	var r Report
	var err error
	var trips *hdrhistogram.Histogram
	if s.Mode == Latency {
		if s.client {
			trips = newHistogram()
		}
		r, err = s.latency(trips, sent)
	} else {
		r, err = s.bandwidth(sent)
	}
	if err = errors.Join(err, sendErr); err != nil {
		return r, trips, err
	}
	n, arrives := s.arrived()
	if arrives && n > 0 {
		err := s.verify(n)
		for end := time.Now().Add(arrival); err != nil && s.Transport != RC && s.Op == Write &&
			time.Now().Before(end); err = s.verify(n) {
			if s.cq.Poll(s.wcs[:]) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if err != nil && s.Transport == RC {
			return r, trips, err
		}
		r.Verified = err == nil
	}
	return r, trips, nil
}

// arrived returns how many messages brought data to this side, and whether any should have.
func (s *side) arrived() (uint64, bool) {
	active := s.client || s.Both
	switch {
	case s.Op == Send:
		return s.received, len(s.streams[0].recvs) > 0
	case s.Op == Read:
		return s.mark.done, active
	case s.Op.atomic():
		return s.peerSent.Load(), !s.client || s.Both
	case s.Mode == Latency:
		return 1, true
	}
	return s.peerSent.Load(), !s.client || s.Both
}

// openDevice opens the device of the local address of conn, unless there is one already.
func openDevice(conn net.Conn, opt Options) (*verbs.Device, func() error, error) {
	if opt.Device != nil {
		return opt.Device, func() error { return nil }, nil
	}
	dev, err := opt.Open(hostOf(conn.LocalAddr()))
	if err != nil {
		return nil, nil, err
	}
	return dev, dev.Close, nil
}

func hostOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Options select the device to measure with.
type Options struct {
	Device *verbs.Device                           // nil: Open that of the control connection's address
	Open   func(netip.Addr) (*verbs.Device, error) // needed if Device is nil
	Accept func(Config) error                      // server: refuses measurements; nil: none
	Notice func(*Result)                           // server: called after each measurement, without RoundTrip; nil: not
}

// Client is the side that decides the measurement.
type Client struct {
	*session
	closeDevice func() error
	running     atomic.Pointer[side]
}

// Dial connects to a process that runs [Serve]. An invalid local leaves the choice to the
// system.
func Dial(ctx context.Context, address string, local netip.Addr, opt Options) (*Client, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	if local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	dev, closeDevice, err := openDevice(conn, opt)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{session: newSession(conn, dev), closeDevice: closeDevice}, nil
}

// Device returns the device used.
func (c *Client) Device() *verbs.Device { return c.dev }

// Run measures. After an error the client can only be closed.
func (c *Client) Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if err := c.send(message{Job: &job{Version: version, Config: &cfg}}); err != nil {
		return nil, err
	}
	r, err := c.measure(ctx, cfg, true, c.running.Store)
	c.running.Store(nil)
	if err != nil {
		c.report(err)
		return nil, err
	}
	return r, nil
}

// Stop has the running measurement end as if its duration were over. It may be called from any
// goroutine, and does nothing to a measurement without a duration.
func (c *Client) Stop() {
	if s := c.running.Load(); s != nil && s.Duration > 0 {
		s.halt.Or(timeUp)
	}
}

// Progress returns about how many messages the running measurement has done so far. It may be
// called from any goroutine.
func (c *Client) Progress() uint64 {
	if s := c.running.Load(); s != nil {
		return s.progress.Load()
	}
	return 0
}

// Baseline measures bare sockets between the same two processes. After an error the client is still
// usable.
func (c *Client) Baseline(ctx context.Context, cfg baseline.Config) (baseline.Result, error) {
	if err := c.send(message{Job: &job{Version: version, Baseline: &cfg}}); err != nil {
		return baseline.Result{}, err
	}
	m, err := c.expect(ctx)
	if err != nil {
		return baseline.Result{}, err
	}
	to, err := netip.ParseAddrPort(m.Address)
	if err != nil {
		return baseline.Result{}, errUnexpected
	}
	r, err := baseline.Run(ctx, cfg, netip.AddrPortFrom(hostOf(c.conn.LocalAddr()), 0), to)
	if _, rerr := c.expect(ctx); err == nil {
		err = rerr
	}
	return r, err
}

// Close ends the session.
func (c *Client) Close() error { return errors.Join(c.conn.Close(), c.closeDevice()) }

// Serve serves the client at the other end of conn until it closes the connection.
func Serve(ctx context.Context, conn net.Conn, opt Options) error {
	defer conn.Close()
	dev, closeDevice, err := openDevice(conn, opt)
	x := newSession(conn, dev)
	if err != nil {
		x.report(err)
		return err
	}
	defer closeDevice()
	for {
		m, err := x.expect(ctx)
		if errors.Is(err, errPeerGone) {
			return nil
		}
		if err == nil {
			err = x.serveJob(ctx, m.Job, opt)
		}
		if err != nil {
			x.report(err)
			// The client must read the reason before it finds the connection closed.
			conn.SetReadDeadline(time.Now().Add(time.Second))
			for range x.in {
				continue
			}
			return err
		}
	}
}

func (x *session) serveJob(ctx context.Context, j *job, opt Options) error {
	switch {
	case j == nil || j.Config == nil && j.Baseline == nil:
		return errUnexpected
	case j.Version != version:
		return fmt.Errorf("the other side speaks version %d of ramjet perf, this one %d", j.Version, version)
	case j.Baseline != nil:
		return x.serveBaseline(ctx, *j.Baseline)
	}
	if err := j.Config.Check(); err != nil {
		return err
	}
	if opt.Accept != nil {
		if err := opt.Accept(*j.Config); err != nil {
			return err
		}
	}
	r, err := x.measure(ctx, *j.Config, false, nil)
	if err == nil && opt.Notice != nil {
		opt.Notice(r)
	}
	return err
}

func (x *session) serveBaseline(ctx context.Context, c baseline.Config) error {
	s, err := baseline.Listen(c, netip.AddrPortFrom(hostOf(x.conn.LocalAddr()), 0))
	if err != nil {
		return x.send(message{Error: err.Error()})
	}
	defer s.Close()
	if err := x.send(message{Address: s.Addr().String()}); err != nil {
		return err
	}
	if err := s.Serve(ctx); err != nil {
		return x.send(message{Error: err.Error()})
	}
	return x.send(message{Ready: true})
}
