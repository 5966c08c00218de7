// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// session is a client.
type session struct {
	conn    *net.UnixConn
	id      uint32 // of its process
	host    Host
	pending pending

	mu           sync.Mutex
	traps        map[trap]uint16
	servesVendor bool      // for requests of vendors' classes
	asked        [256]bool // classes of requests that it has sent: it has agents for them
	hasAsked     bool      // has sent any
	sm           bool      // is a subnet manager
	settleTimer  *time.Timer
}

// tagAt is where the upper 16 bits of the transaction id are in a datagram.
const tagAt = 8

// read passes on what the client sends, until its socket is closed.
func (a *session) read() {
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
func (a *session) send(d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	if h.Method.Asks() {
		a.noteRequest(h.Class)
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

// settleTime is how long a new client gets no requests of vendors' classes. The library does not tell
// which classes it has agents for, and crashes if it gets another; it crashes as well on what comes
// before the program has registered its agent, which it does soon after it has connected.
const settleTime = time.Second

// settle begins the time after which requests of vendors' classes are for the client, unless it has
// asked for something itself.
func (a *session) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleTimer = time.AfterFunc(settleTime, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.hasAsked {
			a.serveVendor(true)
		}
	})
}

// noteRequest ends that: a client that asks is no server.
func (a *session) noteRequest(c mad.Class) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hasAsked, a.asked[c] = true, true
	a.serveVendor(false)
}

// setSM says whether the client is a subnet manager.
func (a *session) setSM(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sm = on
	return a.host.SetSM(on)
}

// serves reports whether requests of a class are for the client. The adapter gives it others, too, that
// are nobody's.
func (a *session) serves(c mad.Class) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c >= firstVendor && c <= lastVendor:
		return a.servesVendor
	case c == mad.ClassSubnet || c == mad.ClassSubnetDirected || c == sa.Class:
		return a.sm || a.asked[c]
	}
	return false
}

// serveVendor says whether requests of vendors' classes are for the client. The lock is held.
func (a *session) serveVendor(on bool) {
	if a.servesVendor == on {
		return
	}
	a.servesVendor = on
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

func (a *session) remember(d *Datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.traps == nil || len(a.traps) == maxTraps {
		a.traps = make(map[trap]uint16)
	}
	a.traps[trapOf(d.SLID, d)] = binary.BigEndian.Uint16(d.MAD[tagAt+2:])
}

// restore gives what represses a trap the trap's transaction id.
func (a *session) restore(m mad.Method, d *Datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := trapOf(d.DLID, d)
	if bits, ok := a.traps[t]; ok && m == mad.MethodTrapRepress {
		binary.BigEndian.PutUint16(d.MAD[tagAt+2:], bits)
		delete(a.traps, t)
	}
}

// refuse returns a request to the client with an error: nobody has answered.
func (a *session) refuse(d *Datagram) {
	d.status = timedOut
	a.write(d)
}

// deliver takes a datagram to the client. Answers that it does not wait for are dropped, as the kernel
// does: the library crashes if it has no agent for them.
func (a *session) deliver(d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	if !h.Method.Answers() && !a.serves(h.Class) {
		return
	}
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
	maskExtendedErrors(d)
	a.write(d)
}

// write drops what a client has no room for: nobody waits for it. The request is repeated.
func (a *session) write(d *Datagram) {
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
func (a *session) gone(name string) bool {
	c, err := net.DialUnix("unixgram", nil, address("%s:in%d", name, a.id))
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	c.Close()
	return false
}

// close ends its access.
func (a *session) close() {
	a.pending.close()
	a.mu.Lock()
	a.settleTimer.Stop()
	a.hasAsked = true // it may be late
	a.mu.Unlock()
	a.host.Close()
	a.conn.Close()
}
