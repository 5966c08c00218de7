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

	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// session is a client and its attachment.
type session struct {
	conn    *net.UnixConn
	id      uint32 // of its process
	host    Host
	pending pending

	mu           sync.Mutex
	traps        map[trap]uint16
	servesVendor bool      // requests of vendor classes are for this client
	asked        [256]bool // classes of its requests: it has agents for them
	hasAsked     bool      // has sent a request
	sm           bool      // is a subnet manager
	settleTimer  *time.Timer
}

// tagAt is the offset of the upper 16 bits of the transaction id in a datagram.
const tagAt = 8

// read handles the client's datagrams, until its socket is closed.
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

// send sends a datagram of the client. A request gets the tag that its response is steered by.
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
	a.host.Send(d) // a request that is lost is repeated
}

// Vendor management classes with an OUI in each datagram (section 13.4.4). ibping and ibsysstat use them.
const (
	firstVendor mad.Class = 0x30
	lastVendor  mad.Class = 0x4f
)

// settleTime is how long a new client gets no requests of vendor classes. The library does not say for which
// classes it has agents, and crashes on requests of others, or before the program has registered its agent, which
// it does soon after connecting.
const settleTime = time.Second

// On a busy machine a client may not have come so far: a client that works, or waits for a processor, gets
// settleMore again, but settleMost times at most.
const (
	settleMore = 100 * time.Millisecond
	settleMost = 600
)

// settle makes the client serve vendor classes after settleTime, unless it sends a request itself.
func (a *session) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	waited := 0
	a.settleTimer = time.AfterFunc(settleTime, func() {
		working := peercred.Working(int(a.id))
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.hasAsked:
		case working && waited < settleMost:
			waited++
			a.settleTimer.Reset(settleMore)
		default:
			a.serveVendor(true)
		}
	})
}

// noteRequest records a request of the client. A client that sends requests does not serve vendor classes.
func (a *session) noteRequest(c mad.Class) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hasAsked, a.asked[c] = true, true
	a.serveVendor(false)
}

// setSM sets whether the client is a subnet manager.
func (a *session) setSM(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sm = on
	return a.host.SetSM(on)
}

// serves reports whether requests of a class are for the client. It also gets requests to the adapter that no
// other program serves.
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

// serveVendor sets whether requests of vendor classes are for the client. The lock is held.
func (a *session) serveVendor(on bool) {
	if a.servesVendor == on {
		return
	}
	a.servesVendor = on
	for c := firstVendor; c <= lastVendor; c++ {
		a.host.Serve(c, on)
	}
}

// trap identifies a trap that a client has received: its source, and the lower half of its transaction id. When the
// client represses it, the library overwrites 16 of the upper bits with an agent's number, as in a request.
type trap struct {
	lid uint16
	tid uint32
}

// maxTraps limits the traps remembered; beyond it all are forgotten, as traps are repeated.
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

// restore restores the transaction id of the trap in a TrapRepress.
func (a *session) restore(m mad.Method, d *Datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := trapOf(d.DLID, d)
	if bits, ok := a.traps[t]; ok && m == mad.MethodTrapRepress {
		binary.BigEndian.PutUint16(d.MAD[tagAt+2:], bits)
		delete(a.traps, t)
	}
}

// refuse returns a request to the client with a timeout error.
func (a *session) refuse(d *Datagram) {
	d.status = timedOut
	a.write(d)
}

// deliver passes a datagram to the client. Responses that it does not wait for are dropped, as the kernel does: the
// library crashes if it has no agent for them.
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

// write sends a datagram to the client's process. If its socket is full, the datagram is dropped.
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

// gone reports whether the client's process has gone: its socket is closed.
func (a *session) gone(name string) bool {
	c, err := net.DialUnix("unixgram", nil, address("%s:in%d", name, a.id))
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	c.Close()
	return false
}

// close detaches the client.
func (a *session) close() {
	a.pending.close()
	a.mu.Lock()
	a.settleTimer.Stop()
	a.hasAsked = true // the timer may have fired already
	a.mu.Unlock()
	a.host.Close()
	a.conn.Close()
}
