// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// earlySubnet delivers a datagram to a client before Attach has returned.
type earlySubnet struct {
	datagram *Datagram
	sent     chan *Datagram
}

// earlyHost is the access to its only node.
type earlyHost struct {
	Host
	sent chan *Datagram
}

func (s earlySubnet) Attach(_ string, receive func(*Datagram)) (Host, error) {
	go receive(s.datagram)
	synctest.Wait() // until it has been handled, or waits for this function to return
	return earlyHost{sent: s.sent}, nil
}

func (h earlyHost) Node() string           { return "host-1" }
func (h earlyHost) Close()                 {}
func (h earlyHost) Send(d *Datagram) error { h.sent <- d; return nil }

// A datagram may arrive while a client is being attached, such as one for the client that had its place before. Here
// it is a segment of a table, which is acknowledged by way of the host.
func TestDeliverWhileAttaching(t *testing.T) {
	name := fmt.Sprintf("ramjet-early-%d", os.Getpid())
	c, err := net.ListenUnixgram("unixgram", address("%s:in%d", name, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	synctest.Test(t, func(t *testing.T) {
		subnet := earlySubnet{datagram: segment(1, sa.RMPPFirst|sa.RMPPLast, 100), sent: make(chan *Datagram)}
		s := &Server{name: name, subnet: subnet}
		number, err := s.attach(&client{id: 1, node: "host-1"})
		if err != nil {
			t.Fatal(err)
		}
		if d := <-subnet.sent; d.DLID != subnet.datagram.SLID {
			t.Errorf("the acknowledgement goes to LID %d, not %d", d.DLID, subnet.datagram.SLID)
		}
		s.clients[number].close()
		s.running.Wait()
	})
}

// A number whose socket's name is still taken, as by a child that has not yet executed its program, is passed over.
func TestNameTaken(t *testing.T) {
	s := &Server{name: fmt.Sprintf("ramjet-taken-%d", os.Getpid())}
	listen := func(format string, a ...any) {
		c, err := net.ListenUnixgram("unixgram", address(format, a...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	const client = 7
	listen("%s:in%d", s.name, client)
	listen("%s:out0", s.name)
	number, conn, err := s.dial(client)
	if err != nil || number != 1 {
		t.Fatalf("number %d, %v; want 1", number, err)
	}
	conn.Close()
	if _, _, err := s.dial(client + 1); err == nil {
		t.Error("a client that is not there is connected to")
	}
}

// plainSubnet has one node, whose state is all zeros.
type plainSubnet struct{}

type plainHost struct{}

func (plainSubnet) Attach(string, func(*Datagram)) (Host, error) { return plainHost{}, nil }

func (plainHost) Node() string                { return "host-1" }
func (plainHost) NodeInfo() (b [64]byte)      { return b }
func (plainHost) PortInfo(uint8) (b [64]byte) { return b }
func (plainHost) Port() (uint16, uint8)       { return 1, 4 }
func (plainHost) GID() (g ib.GID)             { return g }
func (plainHost) PKeys() []ib.PKey            { return make([]ib.PKey, 200) }
func (plainHost) SetSM(bool) error            { return nil }
func (plainHost) Tag() uint16                 { return 1 }
func (plainHost) Serve(mad.Class, bool)       {}
func (plainHost) Close()                      {}
func (plainHost) Send(*Datagram) error        { return nil }

// ask sends a control message from a socket of its own, and returns whether there is an answer within a time.
func ask(t *testing.T, server, own string, wait time.Duration, as func(func() error) error) bool {
	t.Helper()
	var c *net.UnixConn
	err := as(func() (err error) {
		if c, err = net.DialUnix("unixgram", address("%s", own), address("%s:ctl", server)); err != nil {
			return err
		}
		m := ctl{client: 99, kind: kindGID}
		_, err = c.Write(m.append(nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(wait))
	_, err = c.Read(make([]byte, ctlLen))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// Messages of other users are ignored: a client can do everything that a subnet manager can.
func TestStrangers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	name := fmt.Sprintf("ramjet-stranger-%d", os.Getpid())
	s, err := Serve(name, plainSubnet{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	self := func(do func() error) error { return do() }
	nobody := func(do func() error) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // for good: the thread is another user's from here on
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
				done <- errno
				return
			}
			done <- do()
		}()
		return <-done
	}
	if !ask(t, name, name+"-self", time.Minute, self) {
		t.Error("this user is not answered")
	}
	if ask(t, name, name+"-nobody", 200*time.Millisecond, nobody) {
		t.Error("another user is answered")
	}
	if !ask(t, name, name+"-again", time.Minute, self) {
		t.Error("this user is not answered after another one")
	}
}

// A client that reads no answers is not waited for: the server goes on taking messages. Unread answers count
// against the server's send buffer, so a client that leaves hundreds unread keeps answers from all.
func TestUnreadAnswers(t *testing.T) {
	name := fmt.Sprintf("ramjet-unread-%d", os.Getpid())
	s, err := Serve(name, plainSubnet{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := net.DialUnix("unixgram", address("%s-mute", name), address("%s:ctl", name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := ctl{client: 99, kind: kindGID}
	c.SetWriteDeadline(time.Now().Add(time.Minute))
	for range 2000 { // more than the buffer has room for
		if _, err := c.Write(m.append(nil)); err != nil {
			t.Fatal("the server takes no more: ", err)
		}
	}
	c.Close() // which drops its unread answers
	if !ask(t, name, name+"-other", time.Minute, func(do func() error) error { return do() }) {
		t.Error("another client is not answered")
	}
}

// FuzzAnswer hands the server any control messages, one after the other.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	var all []byte
	for k := range kind(16) {
		m := ctl{client: uint32(k) & 1, kind: k, length: 44}
		(&client{id: 77, qp: 1, node: "host-1"}).put(&m.data)
		f.Add(m.append(nil))
		all = m.append(all)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &Server{name: "ramjet-fuzz-answer", subnet: plainSubnet{}}
		for len(b) > 0 {
			n := min(ctlLen, len(b))
			if a := s.answer(b[:n]); a != nil && len(a) != ctlLen {
				t.Errorf("an answer of %d bytes", len(a))
			}
			b = b[n:]
		}
	})
}

// FuzzClient hands a session any datagrams of its client, and any from the subnet: of each piece the first byte says
// which.
func FuzzClient(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{1, 0})
	for _, class := range []byte{1, 3, 4, 0x32, 0x81} {
		for _, method := range []byte{1, 2, 5, 7, 0x81, 0x92} {
			d := Datagram{SLID: 1, DLID: 2, SQP: 1, DQP: 1, length: 256}
			d.MAD[0], d.MAD[1], d.MAD[2], d.MAD[3] = 1, class, 1, method
			f.Add(d.append([]byte{method & 1}))
		}
	}
	f.Add(segment(1, sa.RMPPFirst, 100).append([]byte{1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		here, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // the system names it
		if err != nil {
			t.Fatal(err)
		}
		a := &session{conn: here, host: plainHost{}}
		a.pending.init(a)
		a.settle()
		defer a.close()
		for len(b) > 0 {
			n := min(1+datagramLen, len(b))
			d := new(Datagram)
			switch ok := d.decode(b[1:n]); {
			case !ok:
			case b[0]&1 == 0:
				a.send(d)
			default:
				a.deliver(d)
			}
			b = b[n:]
		}
		if len(a.pending.requests) > maxPending || len(a.traps) > maxTraps {
			t.Errorf("%d requests and %d traps are kept", len(a.pending.requests), len(a.traps))
		}
	})
}
