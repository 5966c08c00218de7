// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Serve lets other processes of the user open adapters of the fabric, until ctx ends. name tells
// fabrics of one host apart; empty stands for the default.
func (f *Fabric) Serve(ctx context.Context, name string) error {
	l, err := listenLocal(name)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go f.accept(ctx, l)
	return nil
}

// acceptPause is the time between attempts to accept a connection while the system refuses, or to connect while the
// other side does.
const acceptPause = 10 * time.Millisecond

// accept serves programs until the listener is closed. A program that may not join costs no more than its refusal.
func (f *Fabric) accept(ctx context.Context, l *net.UnixListener) {
	g := greetings{viewing: make(chan struct{}, maxViewing)}
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is free, perhaps
			time.Sleep(acceptPause)
			continue
		}
		if err := admit(c); err != nil {
			writeNow(c, appendMessage(nil, kindRefused, refusal{err.Error()}))
			c.Close()
			continue
		}
		g.enter(c)
		go f.serve(ctx, c, &g)
	}
}

// greetings are the connections of programs that are not attached yet.
type greetings struct {
	viewing chan struct{} // has one element for each view that is being sent

	mu    sync.Mutex
	conns []*net.UnixConn // the oldest first
}

const (
	// maxGreetings limits the connections that are not attached yet. Beyond it the oldest gives way.
	maxGreetings = 256
	// maxViewing is how many views of a fabric, which may be long, are sent at the same time.
	maxViewing = 8
	// greetTime is how long a program may take for its hello, and for a view of the fabric.
	greetTime = 30 * time.Second
)

// enter adds a connection.
func (g *greetings) enter(c *net.UnixConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) == maxGreetings {
		g.conns[0].Close()
		g.conns = slices.Delete(g.conns, 0, 1)
	}
	g.conns = append(g.conns, c)
}

// leave removes a connection that is attached, or has ended.
func (g *greetings) leave(c *net.UnixConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.conns, c); i >= 0 {
		g.conns = slices.Delete(g.conns, i, i+1)
	}
}

// session is the connection of a program in another process.
type session struct {
	conn       *net.UnixConn
	attachment *fabric.Attachment
	fabric.Waiter
	done chan struct{} // closed when the program is gone

	pieces net.Buffers // of a write

	mu  sync.Mutex
	buf []byte // messages that are to be written before packets
}

// serve serves a program until its connection ends.
func (f *Fabric) serve(ctx context.Context, c *net.UnixConn, others *greetings) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r := newReader(c, maxRequest)
	g := &session{conn: c, Waiter: f.running.NewWaiter(), done: make(chan struct{})}
	err := f.greet(g, r, others)
	others.leave(c)
	if errors.Is(err, errAnswered) {
		return
	} else if err != nil {
		writeNow(c, appendMessage(nil, kindRefused, refusal{err.Error()}))
		return
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		g.write()
		c.Close()
	}()
	g.read(r)
	close(g.done)
	g.Waiter.Close()
	c.Close()
	<-writing
	g.attachment.Close()
}

// errAnswered ends the session of a program that only had a question.
var errAnswered = errors.New("viewed")

// greet attaches a program to the adapter that its hello names, or answers its question.
func (f *Fabric) greet(g *session, r *reader, others *greetings) error {
	g.conn.SetDeadline(time.Now().Add(greetTime))
	defer g.conn.SetDeadline(time.Time{})
	k, b, err := r.next()
	var h hello
	if err == nil && k != kindHello {
		err = errMessage
	}
	if err == nil {
		err = decode(b, &h)
	}
	if err != nil {
		return err
	}
	if h.Version != protocolVersion {
		return fmt.Errorf("the fabric's process speaks version %d of the protocol, the program %d: use the same version of Ramjet for both", protocolVersion, h.Version)
	}
	if h.View {
		others.viewing <- struct{}{}
		defer func() { <-others.viewing }()
		g.conn.SetDeadline(time.Now().Add(greetTime))
		g.conn.Write(appendMessage(nil, kindView, f.view()))
		return errAnswered
	}
	if h.Route != nil {
		hops, arrives, err := f.Route(h.Route.From, h.Route.To)
		if err != nil {
			return err
		}
		g.conn.Write(appendMessage(nil, kindRoute, route{hops, arrives}))
		return errAnswered
	}
	if h.Line != "" {
		others.leave(g.conn)
		return f.runLine(g.conn, h.Line)
	}
	s, err := f.running.Attach(h.Adapter, g)
	if err != nil {
		return err
	}
	g.welcome(s, f.running.Neighbors())
	return nil
}

// welcome describes the adapter to the program. Changes before that are not sent: the ports in the message have
// them.
func (g *session) welcome(s *fabric.Attachment, neighbors map[netip.Addr]ib.GID) {
	g.mu.Lock()
	w := welcome{Name: s.Name(), GUID: s.GUID(), Slot: s.Slot(), Addr: s.Addr(), Neighbors: neighbors}
	for port := 1; port <= s.Ports(); port++ {
		w.Ports = append(w.Ports, s.Info(port))
	}
	g.attachment = s
	g.buf = appendMessage(g.buf, kindWelcome, w)
	g.mu.Unlock()
	g.Wake()
}

// Changed sends the program the new state of a port.
func (g *session) Changed(port int, events ...verbs.EventType) {
	g.mu.Lock()
	s := g.attachment
	g.mu.Unlock()
	if s != nil {
		g.enqueue(kindChanged, changed{port, s.Info(port), events})
	}
}

// maxBuffered limits the bytes of messages, without packets, that wait to be written.
const maxBuffered = 4 << 20

// enqueue queues a message. A program that does not read its messages is disconnected.
func (g *session) enqueue(k messageKind, v any) {
	g.mu.Lock()
	g.buf = appendMessage(g.buf, k, v)
	over := len(g.buf) > maxBuffered
	g.mu.Unlock()
	if over {
		g.conn.Close()
	}
	g.Wake()
}

func (g *session) pending() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.buf) > 0
}

// write writes messages and packets until the connection ends.
func (g *session) write() {
	var got [64]fabric.Arrival
	var heads [len(got) * packetHeader]byte
	var pieces [1 + 2*len(got)][]byte
	var spare []byte
	something := func() bool { return g.pending() || g.attachment.Ready() }
	for g.Wait(something) == nil {
		g.mu.Lock()
		messages := g.buf
		g.buf = spare[:0]
		g.mu.Unlock()
		spare = messages
		n, err := g.attachment.Take(got[:])
		if err != nil {
			return
		}
		head := heads[:0]
		g.pieces = pieces[:0]
		if len(messages) > 0 {
			g.pieces = append(g.pieces, messages)
		}
		for _, a := range got[:n] {
			from := len(head)
			head = appendPacketHeader(head, a.Port, a.Packet)
			g.pieces = append(g.pieces, head[from:], a.Packet.Bytes())
		}
		if len(g.pieces) == 0 {
			continue
		}
		_, err = g.pieces.WriteTo(g.conn)
		g.attachment.Release(got[:n])
		if err != nil {
			return
		}
	}
}

// read carries out the program's messages, until the connection ends.
func (g *session) read(r *reader) {
	var b batch
	for {
		k, body, err := r.next()
		if err != nil {
			return
		}
		if k == kindPacket {
			port, omitted, bytes, err := decodePacket(body)
			if err != nil || port < 1 || port > g.attachment.Ports() {
				return
			}
			if !b.add(port, omitted, bytes) {
				if g.send(&b) != nil {
					return
				}
				b.add(port, omitted, bytes)
			}
			if r.pending() {
				continue // whose bytes, and these, stay where they are
			}
		}
		if g.send(&b) != nil {
			return
		}
		if k == kindPacket {
			continue
		}
		var q request
		if k != kindRequest || decode(body, &q) != nil {
			return
		}
		a := answer{ID: q.ID}
		if err := q.run(g.attachment, &a); q.ID != 0 {
			if err != nil {
				a.Error = err.Error()
			}
			g.enqueue(kindAnswer, a)
		}
	}
}

// batch is packets of a program to send from one port. Their bytes are in the reader's buffer.
type batch struct {
	port    int
	n       int
	bytes   [64][]byte
	sizes   [64]int
	omitted [64]bool // whether the ICRC is left out
	packets [64]*link.Packet
}

// add adds a packet. It returns false if the batch must be sent first.
func (b *batch) add(port int, omitted bool, bytes []byte) bool {
	if b.n == len(b.bytes) || b.n > 0 && port != b.port {
		return false
	}
	b.port = port
	b.bytes[b.n], b.sizes[b.n], b.omitted[b.n] = bytes, len(bytes), omitted
	b.n++
	return true
}

// send sends a batch, and empties it. It may wait for room in the port.
func (g *session) send(b *batch) error {
	n := b.n
	b.n = 0
	if n == 0 {
		return nil
	}
	packets := b.packets[:n]
	for {
		err := g.attachment.Alloc(packets, b.sizes[:n])
		if err == nil {
			break
		}
		if !errors.Is(err, fabric.ErrAgain) {
			return err
		}
		if err := g.attachment.AwaitRoom(g.done); err != nil {
			return err
		}
	}
	for i, p := range packets {
		copy(p.Bytes(), b.bytes[i])
		p.NoICRC = b.omitted[i]
	}
	err := g.attachment.Send(b.port, packets)
	if err != nil {
		g.attachment.Discard(packets)
	}
	return err
}
