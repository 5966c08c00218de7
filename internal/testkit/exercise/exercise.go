// SPDX-License-Identifier: Apache-2.0

// Package exercise has servers and clients for the packages above verbs: connections, datagram services, package rnet,
// and net/http over it. Tests run the servers on one device and the clients on another, which need not be of the same
// kind or on the same host.
package exercise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Ports of the servers, counted from the first.
const (
	portConn = iota
	portService
	portStream
	portPacket
	portHTTP
)

// Test is one use of a device.
type Test struct {
	Name  string
	Needs verbs.DeviceCap // without which devices are left out
	// Run is the client's side: dev talks to the servers at the address, from port on.
	Run func(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error
}

// Tests are all of them.
var Tests = []Test{
	{"Connection", 0, connection},
	{"Refused", 0, refused},
	{"Service", verbs.CapUD, service},
	{"ServiceRefused", verbs.CapUD, serviceRefused},
	{"Stream", 0, stream},
	{"Packet", verbs.CapUD, packet},
	{"HTTP", 0, httpGet},
}

// Serve runs the servers on a device until ctx ends. It returns when they listen.
func Serve(ctx context.Context, dev *verbs.Device, ip netip.Addr, port uint16) error {
	at := func(n uint16) string { return netip.AddrPortFrom(ip, port+n).String() }
	conns, err := cm.Listen(ctx, dev, at(portConn))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { conns.Close() })
	go echoConns(ctx, conns)
	streams, err := rnet.Listen(ctx, dev, at(portStream))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { streams.Close() })
	go echoStreams(streams)
	web, err := rnet.Listen(ctx, dev, at(portHTTP))
	if err != nil {
		return err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				w.Write(body)
			}
		})}
	context.AfterFunc(ctx, func() { s.Close() })
	go s.Serve(web)
	if dev.Query().Caps&verbs.CapUD == 0 {
		return nil
	}
	if err := serveDatagrams(ctx, dev, netip.AddrPortFrom(ip, port+portService)); err != nil {
		return err
	}
	packets, err := rnet.ListenPacket(ctx, dev, at(portPacket))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { packets.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			packets.WriteTo(b[:n], from)
		}
	}()
	return nil
}

func echoConns(ctx context.Context, l *cm.Listener) {
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for {
				m, err := c.Recv(ctx)
				if err != nil {
					return
				}
				err = c.Send(ctx, m.Bytes())
				if m.Release(); err != nil {
					return
				}
			}
		}()
	}
}

func echoStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}

// pattern is n bytes that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13)
	}
	return b
}

// connection sends messages to and fro.
func connection(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	c, err := cm.Dial(ctx, dev, netip.AddrPortFrom(server, port+portConn).String())
	if err != nil {
		return err
	}
	defer c.Close()
	for _, n := range []int{1, 100, 4000} {
		want := pattern(n)
		if err := c.Send(ctx, want); err != nil {
			return fmt.Errorf("sending %d bytes: %w", n, err)
		}
		m, err := c.Recv(ctx)
		if err != nil {
			return fmt.Errorf("receiving %d bytes: %w", n, err)
		}
		same := bytes.Equal(m.Bytes(), want)
		if m.Release(); !same {
			return fmt.Errorf("another message of %d bytes comes back", n)
		}
	}
	return c.Close()
}

// refused connects to a port without a listener.
func refused(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	c, err := cm.Dial(ctx, dev, netip.AddrPortFrom(server, 1).String())
	if err == nil {
		c.Close()
		return errors.New("somebody answers at port 1")
	}
	var why *cm.RejectError
	if !errors.As(err, &why) {
		return fmt.Errorf("nobody listens, and the error is %w", err)
	}
	return nil
}

// stream writes 300,000 bytes and reads them back.
func stream(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	c, err := rnet.Dial(ctx, dev, netip.AddrPortFrom(server, port+portStream).String())
	if err != nil {
		return err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	want := pattern(300_000)
	go c.Write(want)
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("other bytes come back")
	}
	return nil
}

// packet sends datagrams, which may get lost.
func packet(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	p, err := rnet.ListenPacket(ctx, dev, ":0")
	if err != nil {
		return err
	}
	defer p.Close()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, port+portPacket))
	want, got := pattern(900), make([]byte, 4096)
	for ctx.Err() == nil {
		if _, err := p.WriteTo(want, to); err != nil {
			return err
		}
		p.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, _, err := p.ReadFrom(got)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(got[:n], want) {
			return errors.New("another datagram comes back")
		}
		return nil
	}
	return ctx.Err()
}

// httpGet posts a body, which comes back.
func httpGet(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	d := rnet.Dialer{Device: dev}
	transport := &http.Transport{DialContext: d.DialContext}
	defer transport.CloseIdleConnections()
	want := pattern(50_000)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+netip.AddrPortFrom(server, port+portHTTP).String()+"/", bytes.NewReader(want))
	if err != nil {
		return err
	}
	a, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	got, err := io.ReadAll(a.Body)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("another body comes back")
	}
	return err
}
