// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const patience = 3 * time.Minute

// pair connects a client with a listener's peer, which answers it.
func pair(t *testing.T, c *Config, answer func(*cm.Listener) error) (client *cm.Conn, answered chan error) {
	t.Helper()
	open := func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) }
	server, at := loopback.Open(t, open)
	dev, _ := loopback.Open(t, open)
	c.Timeout = patience
	l, err := cm.Listen(t.Context(), server, ":7174", c.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	answered = make(chan error, 1)
	go func() { answered <- answer(l) }()
	c.Address = at.String() + ":7174"
	if client, err = cm.Dial(t.Context(), dev, c.Address, c.Options()...); err != nil {
		t.Fatal(err)
	}
	return client, answered
}

// Both sides count their messages, and compare every byte.
func TestPing(t *testing.T) {
	for _, size := range []int{MinSize, 4097, MaxSize} {
		c := &Config{Count: 3, Size: size, Validate: true}
		var said bytes.Buffer
		conn, answered := pair(t, c, func(l *cm.Listener) error { return c.Serve(t.Context(), l, "dev", &said) })
		var out bytes.Buffer
		if err := c.Ping(t.Context(), conn, &out); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		for _, text := range []string{out.String(), said.String()} {
			if !strings.Contains(text, "3 pings, ") || !strings.Contains(text, "every byte compared") {
				t.Errorf("%d bytes: %s", size, text)
			}
		}
	}
}

// A server that returns other data than it read.
func TestValidates(t *testing.T) {
	c := &Config{Count: 3, Size: 100, Validate: true}
	conn, answered := pair(t, c, func(l *cm.Listener) error { return answerWrong(t.Context(), l) })
	var out bytes.Buffer
	err := c.Ping(t.Context(), conn, &out)
	if err == nil || !strings.Contains(err.Error(), "ping 0: the data is not what was sent: byte 17 of 100") {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "1 ping, 100 bytes each way") {
		t.Errorf("%s", out.String())
	}
	if err := <-answered; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func answerWrong(ctx context.Context, l *cm.Listener) error {
	conn, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := (&Config{}).newPinger(ctx, conn, io.Discard)
	mr, err := p.register(verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	if _, err := p.receive(); err != nil {
		return err
	}
	mr.Do(func(b []byte) {
		fill(b[:100], 0)
		b[17]++
	})
	if err := p.send(message{}); err != nil {
		return err
	}
	m, err := p.receive()
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, mr.SGE(0, 100), m.Remote); err != nil {
		return err
	}
	if err := p.send(message{}); err != nil {
		return err
	}
	_, err = p.receive()
	return err
}

// The data that rping writes for pings 0, 1 and 58 of 40 bytes.
func TestData(t *testing.T) {
	for n, want := range map[int]string{
		0:  "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ\x00",
		1:  "rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\x00",
		57: "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWX\x00",
		58: "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXY\x00",
	} {
		b := make([]byte, 40)
		if fill(b, n); string(b) != want {
			t.Errorf("%q, want %q", b, want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte("\x00\x00\x7f\x12\x34\x56\x78\x90\x00\x00\x12\x34\x00\x00\x00\x40"))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if err := m.decode(b); (err == nil) != (len(b) == 16) {
			t.Fatal(err)
		} else if err == nil && !bytes.Equal(m.append(nil), b) {
			t.Errorf("%x is %+v, and that is %x", b, m, m.append(nil))
		}
	})
}

// Clients that say nothing, to a server that serves a few at a time: others are answered, and the silent ones leave.
func TestSilentClients(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &Config{Count: 3, Size: 100, Validate: true, Persistent: true, limit: 4}
	silent, answered := pair(t, c, func(l *cm.Listener) error { return c.Serve(ctx, l, "dev", io.Discard) })
	dev := silent.ID().Device()
	for range 8 {
		conn, err := cm.Dial(t.Context(), dev, c.Address, c.Options()...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	conn, err := cm.Dial(t.Context(), dev, c.Address, c.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context(), conn, io.Discard); err != nil {
		t.Error(err)
	}
	select {
	case <-silent.Done():
	case <-time.After(patience):
		t.Error("the first silent client is still served")
	}
	silent.Close()
	cancel()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
