// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// attached is a client.
type attached struct {
	conn    *net.UnixConn
	id      uint32 // of its process
	host    Host
	pending pending
}

// tagAt is where the upper 16 bits of the transaction id are in a datagram.
const tagAt = 8

// read passes on what the client sends, until its socket is closed.
func (a *attached) read() {
	var b [datagramLen + 1]byte
	for {
		n, err := a.conn.Read(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		d := new(Datagram)
		if err != nil || !d.decode(b[:n]) {
			continue // an error is that of an earlier write
		}
		a.send(d)
	}
}

// send sends a datagram. A request gets the tag by which its response comes back.
func (a *attached) send(d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	if h.Method.Asks() {
		binary.BigEndian.PutUint16(d.MAD[tagAt:], a.host.Tag())
		h.Decode(d.MAD[:])
		if !a.pending.add(h.TID, d) {
			a.refuse(d)
			return
		}
	}
	a.host.Send(d) // what is lost is repeated
}

// refuse returns a request to the client with an error: nobody has answered.
func (a *attached) refuse(d *Datagram) {
	d.status = timedOut
	a.write(d)
}

// deliver takes a datagram to the client.
func (a *attached) deliver(d *Datagram) {
	var h mad.Header
	if h.Decode(d.MAD[:]); h.Method.Answers() {
		a.pending.remove(h.TID)
	}
	a.write(d)
}

// write drops what a client has no room for: nobody waits for it. The request is repeated.
func (a *attached) write(d *Datagram) {
	raw, err := a.conn.SyscallConn()
	if err != nil {
		return
	}
	b := d.append(make([]byte, 0, datagramLen))
	raw.Write(func(fd uintptr) bool {
		unix.Send(int(fd), b, unix.MSG_DONTWAIT)
		return true
	})
}

// gone reports whether the client's process has closed its socket.
func (a *attached) gone(name string) bool {
	c, err := net.DialUnix("unixgram", nil, address("%s:in%d", name, a.id))
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	c.Close()
	return false
}

// close ends its access.
func (a *attached) close() {
	a.pending.close()
	a.host.Close()
	a.conn.Close()
}
