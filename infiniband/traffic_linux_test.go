// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// findNode returns a node by its name.
func findNode(t testing.TB, f *infiniband.Fabric, name string) *infiniband.NodeView {
	t.Helper()
	v := f.View()
	for i := range v.Nodes {
		if v.Nodes[i].Name == name {
			return &v.Nodes[i]
		}
	}
	t.Fatalf("no node %q", name)
	return nil
}

// sent returns how many bytes each port has sent.
func sent(f *infiniband.Fabric) map[infiniband.End]uint64 {
	all := make(map[infiniband.End]uint64)
	for _, n := range f.View().Nodes {
		for _, p := range n.Ports {
			all[infiniband.End{Node: n.Name, Port: p.Number}] = 4 * p.Counters.XmitData
		}
	}
	return all
}

// route returns the ports by which packets leave, from one adapter's first port to another's.
func route(t testing.TB, f *infiniband.Fabric, from, to string) []infiniband.End {
	t.Helper()
	hops, arrives, err := f.Route(infiniband.End{Node: from, Port: 1}, infiniband.End{Node: to, Port: 1})
	if err != nil || !arrives {
		t.Fatalf("no route from %s to %s: %v, %v", from, to, hops, err)
	}
	return hops
}

// flow is a connection between two adapters, over the connection manager and the administrator.
type flow struct {
	t            testing.TB
	f            *infiniband.Fabric
	from, to     string
	here, there  *rnet.Conn
	devA, devB   *verbs.Device
	buffer, seen []byte
}

const transferLen = 256 << 10

// connectStream connects two adapters.
func connectStream(t testing.TB, f *infiniband.Fabric, from, to string) *flow {
	t.Helper()
	s := &flow{t: t, f: f, from: from, to: to, buffer: make([]byte, transferLen), seen: make([]byte, transferLen)}
	for i := range s.buffer {
		s.buffer[i] = byte(i * 7)
	}
	open := func(name string) *verbs.Device {
		d, err := f.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	s.devA, s.devB = open(from), open(to)
	l, err := rnet.Listen(t.Context(), s.devB, ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			s.there = c.(*rnet.Conn)
		}
		accepted <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), upTime)
	defer cancel()
	if s.here, err = rnet.Dial(ctx, s.devA, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.here.Close() })
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.there.Close() })
	return s
}

// transfer sends a piece of data and compares the bytes that arrive.
func (s *flow) transfer() {
	s.t.Helper()
	late := time.Now().Add(upTime)
	s.here.SetDeadline(late)
	s.there.SetDeadline(late)
	written := make(chan error, 1)
	go func() {
		_, err := s.here.Write(s.buffer)
		written <- err
	}()
	clear(s.seen)
	if _, err := io.ReadFull(s.there, s.seen); err != nil {
		s.t.Fatalf("%s to %s: %v", s.from, s.to, err)
	}
	if err := <-written; err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Equal(s.buffer, s.seen) {
		s.t.Fatalf("%s to %s: other data have arrived", s.from, s.to)
	}
}

// along transfers, and has all ports on the route, and no other one of its switches, send the data. It returns the
// route.
func (s *flow) along() []infiniband.End {
	s.t.Helper()
	hops := route(s.t, s.f, s.from, s.to)
	var idle []infiniband.End
	for _, e := range hops[1:] {
		for _, p := range findNode(s.t, s.f, e.Node).Ports {
			if o := (infiniband.End{Node: e.Node, Port: p.Number}); o != e {
				idle = append(idle, o)
			}
		}
	}
	before := sent(s.f)
	s.transfer()
	after := sent(s.f)
	for _, e := range hops {
		if n := after[e] - before[e]; n < transferLen {
			s.t.Errorf("%s to %s along %v: %v has sent %d bytes, want %d at least", s.from, s.to, hops, e, n,
				transferLen)
		}
	}
	for _, e := range idle {
		if n := after[e] - before[e]; n >= transferLen/2 {
			s.t.Errorf("%s to %s along %v: %v has sent %d bytes", s.from, s.to, hops, e, n)
		}
	}
	return hops
}
