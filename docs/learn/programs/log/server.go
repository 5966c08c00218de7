// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// server has the log, and knows the clients that follow it.
type server struct {
	log *verbs.MR

	lock      sync.Mutex
	followers map[*cm.Conn]verbs.Remote // where each has its copy
}

func serve(ctx context.Context, dev *verbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.AllocMR(logSize, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic)
	if err != nil {
		return err
	}
	where, err := mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	l, err := cm.Listen(ctx, dev, port, cm.WithPD(pd), cm.WithPrivateData(where))
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("the log is at", l.Addr())
	s := &server{log: mr, followers: make(map[*cm.Conn]verbs.Remote)}
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go s.client(ctx, conn)
	}
}

// client answers one client until that leaves.
func (s *server) client(ctx context.Context, conn *cm.Conn) {
	defer conn.Close()
	defer s.forget(conn)
	for {
		message, err := conn.Recv(ctx)
		if err != nil {
			return
		}
		command, argument, _ := strings.Cut(string(message.Bytes()), " ")
		message.Release()
		if err := conn.Send(ctx, []byte(s.answer(ctx, conn, command, argument))); err != nil {
			return
		}
	}
}

// answer carries out a client's request.
func (s *server) answer(ctx context.Context, conn *cm.Conn, command, argument string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch command {
	case "append":
		n := atomic.AddUint64((*uint64)(unsafe.Pointer(&s.log.Bytes()[0])), 1) - 1
		if n >= slots {
			return "the log is full"
		}
		s.log.Do(func(b []byte) { fill(b[slot(n):], argument) })
		s.replicate(ctx, n)
		return fmt.Sprintf("entry %d", n)
	case "follow":
		var where verbs.Remote
		if err := where.UnmarshalText([]byte(argument)); err != nil {
			return err.Error()
		}
		s.followers[conn] = where
		return "following"
	}
	return command + " is unknown"
}

// replicate WRITEs an entry into the copies of all followers, and tells them. A client that cannot be reached no longer
// follows.
func (s *server) replicate(ctx context.Context, n uint64) {
	for conn, copies := range s.followers {
		at := slot(n)
		err := conn.Write(ctx, s.log.SGE(at, slotSize), copies.At(uint64(at)))
		if err == nil {
			err = conn.Send(ctx, fmt.Appendf(nil, "%d", n))
		}
		if err != nil {
			delete(s.followers, conn)
		}
	}
}

func (s *server) forget(conn *cm.Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.followers, conn)
}
