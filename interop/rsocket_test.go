// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rnet"
)

const rsocketPort = 7481

// rstream is a run of rdma-core's rsocket programs: in turns, count times size bytes each
// way. Bytes count up from 0, through all data of a side.
type rstream struct {
	size, count, turns int
	buffer             int  // of the guest's sockets; 0: the program's choice
	hush               bool // Ramjet sends nothing of its own accord once the guest has the last turn
}

var rstreams = []rstream{
	{size: 64, count: 500, turns: 2},
	{size: 1000, count: 100, turns: 2, buffer: 4096},
	{size: 100000, count: 10, turns: 3},
	{size: 1 << 20, count: 2, turns: 2},
}

func (tr rstream) String() string {
	return fmt.Sprintf("%d×%d,buffer=%d", tr.count, tr.size, tr.buffer)
}

// argv is the command line of rstream or riostream, which verifies received data.
func (tr rstream) argv(program string, more ...string) []string {
	argv := []string{program, "-p", strconv.Itoa(rsocketPort), "-S", strconv.Itoa(tr.size), "-C",
		strconv.Itoa(tr.count),
		"-I", strconv.Itoa(tr.turns), "-T", "b", "-T", "v"}
	if tr.buffer > 0 {
		argv = append(argv, "-B", strconv.Itoa(tr.buffer))
	}
	return append(argv, more...)
}

// counting makes and checks bytes that count up.
type counting struct{ next byte }

func (c *counting) fill(b []byte) {
	for i := range b {
		b[i] = c.next
		c.next++
	}
}

func (c *counting) check(t testing.TB, b []byte) {
	t.Helper()
	for i := range b {
		if b[i] != c.next {
			t.Fatalf("byte %d of %d is %d, want %d", i, len(b), b[i], c.next)
		}
		c.next++
	}
}

// stream is Ramjet's side of rstream.
func (tr rstream) stream(t testing.TB, c *rnet.Conn, client bool) {
	t.Helper()
	var out, in counting
	send := func(n int) {
		b := make([]byte, n)
		out.fill(b)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	recv := func(n int) {
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		in.check(t, b)
	}
	turn := func(size, count int) {
		first, second := recv, send
		if client {
			first, second = send, recv
		}
		for range count {
			first(size)
		}
		for range count {
			second(size)
		}
	}
	turn(16, 1)
	for i := range tr.turns {
		tr.last(c, i)
		turn(tr.size, tr.count)
	}
}

// last ends the probes before the last turn, if they are to.
func (tr rstream) last(c *rnet.Conn, turn int) {
	if tr.hush && turn == tr.turns-1 {
		c.SetKeepAlivePeriod(-1)
	}
}

// mapped is Ramjet's side of riostream: each side writes to memory that the other has
// mapped, and marks the last transfer of a turn in its last byte.
func (tr rstream) mapped(t testing.TB, c *rnet.Conn, client bool) {
	t.Helper()
	var out, in counting
	buf := make([]byte, tr.size)
	mr, err := c.Map(buf, 0)
	must(t, mr, err)
	mr.Do(func(b []byte) { b[tr.size-1] = 255 })
	sync := make([]byte, 16)
	if client {
		_, err = c.Write(sync)
		must(t, c, err)
	}
	_, err = io.ReadFull(c, sync)
	must(t, c, err)
	if !client {
		_, err = c.Write(sync)
		must(t, c, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	marker := byte(0)
	data := make([]byte, tr.size)
	write := func() {
		if _, err := c.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
	}
	send := func() {
		for range tr.count - 1 {
			mr.Do(func(b []byte) { copy(data, b) })
			write()
		}
		out.fill(data[:tr.size-1])
		data[tr.size-1] = marker
		write()
	}
	recv := func() {
		if err := mr.WaitFor(ctx, func(b []byte) bool { return b[tr.size-1] == marker }); err != nil {
			t.Fatalf("marker %d: %v", marker, err)
		}
		mr.Do(func(b []byte) { in.check(t, b[:tr.size-1]) })
	}
	first, second := recv, send
	if client {
		first, second = send, recv
	}
	for i := range tr.turns {
		tr.last(c, i)
		first()
		marker++
		second()
		marker++
	}
}

// TestRsocketPrograms runs rstream and riostream of librdmacm against rnet, both roles. (Its
// udpong runs against nothing here, itself included: librdmacm's datagram sockets make an
// address handle without a GRH, which RoCE devices refuse.)
func TestRsocketPrograms(t *testing.T) {
	for _, p := range []struct {
		name string
		side func(rstream, testing.TB, *rnet.Conn, bool)
	}{{"rstream", rstream.stream}, {"riostream", rstream.mapped}} {
		for _, f := range both {
			for _, tr := range rstreams {
				if f.ipv6 && tr.buffer == 0 {
					continue // one is enough
				}
				name := fmt.Sprintf("%s/%s/%v/", p.name, f.name, tr)
				end := func(t *testing.T, c *rnet.Conn, who string, wait func() jobResult) {
					rest, err := io.ReadAll(c)
					if err != nil || len(rest) > 0 {
						t.Errorf("behind the last transfer: %d bytes, %v", len(rest), err)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					wantProgram(t, who, wait())
				}
				options := rnet.Options{IOMaps: 1, KeepAlive: time.Millisecond} // with many probes
				t.Run(name+f.fromGuest(), func(t *testing.T) {
					m, g := f.open(t), dialGuest(t, f.ipv6)
					l, err := (&rnet.ListenConfig{Device: m.dev, Options: options}).Listen(t.Context(),
						net.JoinHostPort(f.host, strconv.Itoa(rsocketPort)))
					must(t, l, err)
					defer l.Close()
					client := g.spawn(0, tr.argv(p.name, "-s", f.host)...)
					l.SetDeadline(time.Now().Add(programTimeout))
					c, err := l.AcceptConn()
					must(t, c, err)
					defer c.Close()
					c.SetDeadline(time.Now().Add(programTimeout))
					p.side(tr, t, c, false)
					end(t, c, "client", func() jobResult { return client.wait(programTimeout) })
				})
				t.Run(name+f.toGuest(), func(t *testing.T) {
					m, g := f.open(t), dialGuest(t, f.ipv6)
					options, tr := options, tr
					if f.iwarp() {
						// A segment that arrives at a connection that siw closes, such as a probe or credits, has
						// the guest's TCP throw away unsent data: the program's last bytes.
						tr.hush = true
						options.RecvBuffer, options.RecvQueue = 16<<20, 4096 // no half is used up
					}
					server := g.spawnCM(rsocketPort, tr.argv(p.name, "-b", f.guest)...)
					d := rnet.Dialer{Device: m.dev, Options: options}
					nc, err := d.DialContext(m.ctx, "rdma", net.JoinHostPort(f.guest, strconv.Itoa(rsocketPort)))
					must(t, nc, err)
					c := nc.(*rnet.Conn)
					defer c.Close()
					c.SetDeadline(time.Now().Add(programTimeout))
					p.side(tr, t, c, true)
					end(t, c, "server", func() jobResult { return server.wait(programTimeout) })
				})
			}
		}
	}
}

// TestRsocketPeerKilled kills rstream in the middle of its data: reading and writing end
// with an error.
func TestRsocketPeerKilled(t *testing.T) {
	tr := rstream{size: 100000, count: 10000, turns: 1}
	m, g := openManager(t, false), dialGuest(t, false)
	l, err := rnet.Listen(t.Context(), m.dev, net.JoinHostPort(hostIPv4, strconv.Itoa(rsocketPort)))
	must(t, l, err)
	defer l.Close()
	client := g.spawn(0, tr.argv("rstream", "-s", hostIPv4)...)
	l.SetDeadline(time.Now().Add(programTimeout))
	c, err := l.AcceptConn()
	must(t, c, err)
	c.SetDeadline(time.Now().Add(programTimeout))
	n, err := io.CopyN(c, c, 16) // they keep step before they begin
	must(t, n, err)
	n, err = io.CopyN(io.Discard, c, 3*int64(tr.size))
	must(t, n, err)
	client.kill()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("reading waits for the peer that was killed")
	}
	for { // as much as there is room for
		if _, err = c.Write(make([]byte, tr.size)); err != nil {
			break
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("writing waits for the peer that was killed")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestRsocketCutOff cuts the link while nothing is on its way: the probe of a side that only
// reads finds out.
func TestRsocketCutOff(t *testing.T) {
	m, g := openManager(t, false), dialGuest(t, false)
	server := g.spawnCM(rsocketPort, rstream{size: 64, count: 1, turns: 1}.argv("rstream", "-b", guestIPv4)...)
	d := rnet.Dialer{Device: m.dev, Options: rnet.Options{KeepAlive: 10 * time.Millisecond}}
	c, err := d.DialContext(m.ctx, "rdma", net.JoinHostPort(guestIPv4, strconv.Itoa(rsocketPort)))
	must(t, c, err)
	c.SetDeadline(time.Now().Add(time.Second)) // many probes to a peer that is there
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading what was not sent: %v", err)
	}
	g.netem("in", "loss", "100%")
	c.SetDeadline(time.Now().Add(programTimeout))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading over the cut: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	server.wait(time.Millisecond)
}
