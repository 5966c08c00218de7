// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// maxClients limits the clients: the library supports no more.
const maxClients = 10

// Server serves clients of a subnet.
type Server struct {
	name    string
	subnet  Subnet
	control *net.UnixConn
	running sync.WaitGroup

	mu      sync.Mutex
	clients [maxClients]*session
	closed  bool
}

// address returns the address of an abstract socket. The library includes a NUL after the name in it.
func address(format string, a ...any) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: "@" + fmt.Sprintf(format, a...) + "\x00"}
}

// Serve serves clients of this user, and of root, that use a name, until Close.
func Serve(name string, subnet Subnet) (*Server, error) {
	at := address("%s:ctl", name)
	l := net.ListenConfig{Control: peercred.TellSenders}
	c, err := l.ListenPacket(context.Background(), at.Net, at.Name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("ibsim: another simulator serves the name %q here: end it, or choose another name, which clients have in IBSIM_SOCKNAME: %w", name, syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("ibsim: %w", err)
	}
	s := &Server{name: name, subnet: subnet, control: c.(*net.UnixConn)}
	s.running.Add(1)
	go s.serve()
	return s, nil
}

// Close detaches all clients, and returns when all goroutines have ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for i, a := range s.clients {
		if a != nil {
			s.clients[i] = nil
			a.close()
		}
	}
	s.mu.Unlock()
	err := s.control.Close()
	s.running.Wait()
	return err
}

// serve answers control messages. Any user of the host can send some, as abstract sockets have no permissions; messages
// of other users are ignored.
func (s *Server) serve() {
	defer s.running.Done()
	var b [ctlLen + 1]byte
	oob := make([]byte, peercred.SenderSpace)
	for {
		n, nc, _, from, err := s.control.ReadMsgUnix(b[:], oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || from == nil {
			continue
		}
		if who, ok := peercred.Sender(oob[:nc]); !ok || !who.Trusted() {
			continue
		}
		if answer := s.answer(b[:n]); answer != nil {
			s.reply(answer, from)
		}
	}
}

// answer returns the answer to a control message; nil: it is none.
func (s *Server) answer(b []byte) []byte {
	var c ctl
	if !c.decode(b) {
		return nil
	}
	if err := s.handle(&c); err != nil {
		c.kind = kindError
	}
	return c.append(nil)
}

// reply sends an answer to a client. A client that leaves too many unread gets no more: the others do not wait for it.
func (s *Server) reply(b []byte, to *net.UnixAddr) {
	raw, err := s.control.SyscallConn()
	if err != nil {
		return
	}
	name := to.Name + "\x00" // the system strips it
	raw.Write(func(fd uintptr) bool {
		unix.Sendto(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: name})
		return true
	})
}

var errUnknown = errors.New("ibsim: no such client, or unknown message")

func (s *Server) handle(c *ctl) error {
	if c.kind == kindConnect {
		return s.connect(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.client >= maxClients || s.clients[c.client] == nil {
		return errUnknown
	}
	a := s.clients[c.client]
	h := a.host
	switch c.kind {
	case kindDisconnect:
		s.clients[c.client] = nil
		a.close()
	case kindPort:
		lid, state := h.Port()
		clear(c.data[:])
		binary.NativeEndian.PutUint16(c.data[:], lid)
		c.data[2] = state
	case kindVendor:
		s.vendor(c, h)
	case kindGID:
		gid := h.GID()
		copy(c.data[:], gid[:])
	case kindGUID:
		info := nodeInfo(h)
		binary.BigEndian.PutUint64(c.data[:], info.NodeGUID)
	case kindNodeInfo:
		c.data = h.NodeInfo()
	case kindPortInfo:
		c.data = h.PortInfo(c.data[0])
	case kindSetSM:
		return a.setSM(binary.NativeEndian.Uint32(c.data[:]) != 0)
	case kindPKeys:
		clear(c.data[:])
		for i, k := range h.PKeys() {
			if 2*i < ctlDataLen {
				binary.BigEndian.PutUint16(c.data[2*i:], uint16(k))
			}
		}
	default:
		return errUnknown
	}
	return nil
}

func nodeInfo(h Host) (n smp.NodeInfo) {
	b := h.NodeInfo()
	n.Decode(b[:])
	return n
}

// vendor answers with the vendor's id, the device's, its revision, and a version of firmware.
func (s *Server) vendor(c *ctl, h Host) {
	n := nodeInfo(h)
	clear(c.data[:])
	binary.NativeEndian.PutUint32(c.data[:], n.VendorID)
	binary.NativeEndian.PutUint32(c.data[4:], uint32(n.DeviceID))
	binary.NativeEndian.PutUint32(c.data[8:], n.Revision)
	binary.NativeEndian.PutUint64(c.data[16:], 1)
}

// connect attaches a client.
func (s *Server) connect(c *ctl) error {
	var who client
	who.decode(&c.data)
	number, err := s.attach(&who)
	if err != nil {
		return err
	}
	who.id = uint32(number)
	who.put(&c.data)
	return nil
}

// attach attaches a client to a node, and returns its number.
func (s *Server) attach(who *client) (number int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, conn, err := s.dial(who.id)
	if err != nil {
		return 0, err
	}
	a := &session{conn: conn, id: who.id}
	a.pending.init(a)
	attached := make(chan struct{}) // datagrams that arrive before wait, as deliver needs a.host
	a.host, err = s.subnet.Attach(who.node, func(d *Datagram) {
		<-attached
		a.deliver(d)
	})
	close(attached)
	if err == nil && who.sm {
		if err = a.setSM(true); err != nil {
			a.host.Close()
		}
	}
	if err != nil {
		conn.Close()
		return 0, err
	}
	who.node = a.host.Node()
	s.clients[number] = a
	a.settle()
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		a.read()
	}()
	return number, nil
}

var errFull = errors.New("ibsim: all clients' places are taken")

// dial connects to a client by the first unused number. It detaches clients that have ended without a disconnect. A
// closed socket keeps its name for a moment if this process is just starting another one: the child has the socket
// until it executes its program. The next number is used then. The lock is held.
func (s *Server) dial(client uint32) (number int, conn *net.UnixConn, err error) {
	if s.closed {
		return 0, nil, net.ErrClosed
	}
	err = errFull
	for i, a := range s.clients {
		if a != nil && a.gone(s.name) {
			a.close()
			s.clients[i] = nil
		}
		if s.clients[i] != nil {
			continue
		}
		conn, err = net.DialUnix("unixgram", address("%s:out%d", s.name, i), address("%s:in%d", s.name, client))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return i, conn, err
		}
	}
	return 0, nil, err
}
