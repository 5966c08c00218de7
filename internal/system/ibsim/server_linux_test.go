// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"

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
