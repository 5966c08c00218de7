// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
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
	listens bool // for requests of vendors' classes

	mu    sync.Mutex
	traps map[trap]uint16
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
		a.listen(false)
		binary.BigEndian.PutUint16(d.MAD[tagAt:], a.host.Tag())
		h.Decode(d.MAD[:])
		if !a.pending.add(h.TID, d) {
			a.refuse(d)
			return
		}
	} else {
		a.restore(h.Method, d)
		complete(d)
	}
	a.host.Send(d) // what is lost is repeated
}

// Management classes of vendors, with a vendor's number in each datagram (section 13.4.4): ibping and
// ibsysstat have theirs there.
const (
	firstVendor mad.Class = 0x30
	lastVendor  mad.Class = 0x4f
)

// listen says whether requests of vendors' classes are for the client: until it asks for something
// itself. The library does not tell which classes it has agents for, and crashes if it gets another.
func (a *attached) listen(on bool) {
	if a.listens == on {
		return
	}
	a.listens = on
	for c := firstVendor; c <= lastVendor; c++ {
		a.host.Serve(c, on)
	}
}

// trap is one that a client has got: where from, and the lower half of its transaction id. The library
// writes the number of an agent over 16 of the bits above when the client represses it, as if it were a
// request.
type trap struct {
	lid uint16
	tid uint32
}

// maxTraps is how many traps are remembered until all are forgotten: they come again.
const maxTraps = 4096

func trapOf(lid uint16, d *Datagram) trap { return trap{lid, binary.BigEndian.Uint32(d.MAD[tagAt+4:])} }

func (a *attached) remember(d *Datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.traps == nil || len(a.traps) == maxTraps {
		a.traps = make(map[trap]uint16)
	}
	a.traps[trapOf(d.SLID, d)] = binary.BigEndian.Uint16(d.MAD[tagAt+2:])
}

// restore gives what represses a trap the trap's transaction id.
func (a *attached) restore(m mad.Method, d *Datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := trapOf(d.DLID, d)
	if bits, ok := a.traps[t]; ok && m == mad.MethodTrapRepress {
		binary.BigEndian.PutUint16(d.MAD[tagAt+2:], bits)
		delete(a.traps, t)
	}
}

// refuse returns a request to the client with an error: nobody has answered.
func (a *attached) refuse(d *Datagram) {
	d.status = timedOut
	a.write(d)
}

// deliver takes a datagram to the client. Answers that it does not wait for are dropped, as the kernel
// does: the library crashes if it has no agent for them.
func (a *attached) deliver(d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	reply, ok := receive(d)
	if reply != nil {
		a.host.Send(reply)
	}
	if h.Method == mad.MethodTrap {
		a.remember(d)
	}
	if !ok || h.Method.Answers() && !a.pending.remove(h.TID) {
		return
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
