// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rnet"
)

const rcopyPort = 7427

// rcopyCommand is a request of rcopy's client. Its server repeats it with rcopyAnswer.
type rcopyCommand uint8

const (
	rcopyOpen rcopyCommand = iota + 1
	rcopyClose
	rcopyWrite
	rcopyAnswer rcopyCommand = 0x80
)

// rcopyHeader is before every message of rcopy, in the byte order of its machine.
type rcopyHeader struct {
	Version uint8
	Command rcopyCommand
	Len     uint16 // of the message, this header included
	Data    uint32 // open: the file's mode; answers: an errno
	ID      uint64
}

const rcopyHeaderLen = 16

// rcopyConn is Ramjet's end of rcopy.
type rcopyConn struct {
	*rnet.Conn
	t testing.TB
}

func (c rcopyConn) send(command rcopyCommand, data uint32, body []byte) {
	c.t.Helper()
	h := rcopyHeader{Command: command, Len: uint16(rcopyHeaderLen + len(body)), Data: data}
	b, err := binary.Append(nil, binary.LittleEndian, h)
	must(c.t, b, err)
	n, err := c.Write(append(b, body...))
	must(c.t, n, err)
}

// receive returns the next message, which must be of this command, and the bytes behind its
// header.
func (c rcopyConn) receive(command rcopyCommand) (h rcopyHeader, body []byte) {
	c.t.Helper()
	if err := binary.Read(c, binary.LittleEndian, &h); err != nil {
		c.t.Fatal(err)
	}
	if h.Version != 0 || h.Command != command || h.Len < rcopyHeaderLen {
		c.t.Fatalf("got %+v, want command %#x", h, command)
	}
	body = make([]byte, h.Len-rcopyHeaderLen)
	n, err := io.ReadFull(c, body)
	must(c.t, n, err)
	return h, body
}

// ask sends a command and its data, and waits for the answer.
func (c rcopyConn) ask(command rcopyCommand, data uint32, body, more []byte) {
	c.t.Helper()
	c.send(command, data, body)
	n, err := c.Write(more)
	must(c.t, n, err)
	if h, _ := c.receive(command | rcopyAnswer); h.Data != 0 {
		c.t.Fatalf("the server answers command %d with errno %d", command, h.Data)
	}
}

// TestRcopy copies a file to rdma-core's rcopy, and takes one from it. (rcopy knows no IPv6:
// a colon ends the server's name.)
func TestRcopy(t *testing.T) {
	const size = 3<<20 + 17
	deadline := func(c *rnet.Conn) { c.SetDeadline(time.Now().Add(programTimeout)) }
	sum := func(g *guest, path string) string {
		r := g.run(programTimeout, "sha256sum", path)
		wantProgram(t, "sha256sum", r)
		return strings.Fields(r.Output)[0]
	}

	for _, f := range []family{families[0], iwFamilies[0]} {
		t.Run(f.toGuest(), func(t *testing.T) {
			const path = "/tmp/copied"
			g, m := dialGuest(t, false), f.open(t)
			server := g.spawnCM(rcopyPort, "rcopy")
			conn, err := rnet.Dial(m.ctx, m.dev, net.JoinHostPort(f.guest, strconv.Itoa(rcopyPort)))
			c := rcopyConn{must(t, conn, err), t}
			deadline(c.Conn)
			data := pattern(3, size)
			c.ask(rcopyOpen, 0o600, append([]byte(path), 0), nil)
			c.ask(rcopyWrite, 0, binary.LittleEndian.AppendUint64(nil, size), data)
			c.ask(rcopyClose, 0, nil, nil)
			m.ok(c.Close())
			want := sha256.Sum256(data)
			if got := sum(g, path); got != hex.EncodeToString(want[:]) {
				t.Errorf("the copy has the sum %s, want %x", got, want)
			}
			server.kill()
		})

		t.Run(f.fromGuest(), func(t *testing.T) {
			g, m := dialGuest(t, false), f.open(t)
			l, err := rnet.Listen(t.Context(), m.dev, net.JoinHostPort(f.host, strconv.Itoa(rcopyPort)))
			must(t, l, err)
			defer l.Close()
			l.SetDeadline(time.Now().Add(programTimeout))
			r := g.run(programTimeout, "dd", "if=/dev/urandom", "of=/tmp/source", "bs="+strconv.Itoa(size), "count=1",
				"iflag=fullblock")
			wantProgram(t, "dd", r)
			client := g.spawn(0, "rcopy", "/tmp/source", f.host+":/where/it/goes")
			conn, err := l.AcceptConn()
			c := rcopyConn{must(t, conn, err), t}
			deadline(c.Conn)
			if _, path := c.receive(rcopyOpen); strings.TrimRight(string(path), "\x00") != "/where/it/goes" {
				t.Errorf("it wants to open %q", path)
			}
			c.send(rcopyOpen|rcopyAnswer, 0, nil)
			_, length := c.receive(rcopyWrite)
			if n := binary.LittleEndian.Uint64(length); n != size {
				t.Errorf("it wants to write %d bytes", n)
			}
			got := sha256.New()
			n, err := io.CopyN(got, c, size)
			must(t, n, err)
			c.send(rcopyWrite|rcopyAnswer, 0, nil)
			c.receive(rcopyClose)
			c.send(rcopyClose|rcopyAnswer, 0, nil)
			if n, err := io.Copy(io.Discard, c); n > 0 || err != nil {
				t.Errorf("behind the end: %d bytes, %v", n, err)
			}
			m.ok(c.Close())
			wantProgram(t, "client", client.wait(programTimeout), strconv.Itoa(size)+" bytes in")
			if want := sum(g, "/tmp/source"); hex.EncodeToString(got.Sum(nil)) != want {
				t.Errorf("what came has the sum %x, want %s", got.Sum(nil), want)
			}
		})
	}
}
