// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	cmMessage = 8 << 10
	cmArea    = 32 << 10
)

// runCM has one side listen and the other connect again and again, and both send messages and
// write to each other's memory on each connection.
func runCM(w *world) error {
	rounds, messages := 1+w.rand.IntN(3), 1+w.rand.IntN(12)
	refuse := w.rand.IntN(4) == 0
	spin := time.Duration(w.rand.IntN(2) - 1)
	seeds := [2]uint64{w.rand.Uint64(), w.rand.Uint64()}
	w.tell(", %d connections of %d messages each way, the first refused %v", rounds, messages, refuse)
	listening := make(chan error, 1)
	return w.all(func(ctx context.Context, side int) error {
		c := &cmSide{w: w, host: side, num: side, rand: rand.New(rand.NewPCG(seeds[side], 2)), messages: messages,
			opts: []cm.Option{cm.WithRecvSize(cmMessage), cm.WithDepth(8, 16), cm.WithSpin(spin),
				cm.WithTimeout(time.Minute)}}
		if side == 0 {
			return c.listen(ctx, rounds, refuse, listening)
		}
		if err := <-listening; err != nil {
			return nil // the other side reports it
		}
		return c.dial(ctx, rounds, refuse)
	})
}

// cmSide is one side.
type cmSide struct {
	w        *world
	host     int
	num      int // 0: the side that listens
	pair     int // stamps of several pairs differ
	rand     *rand.Rand
	messages int
	opts     []cm.Option
}

func (c *cmSide) at(what string) { c.w.at(c.host, what) }

// who returns the number of a message's sender: this side, or its peer.
func (c *cmSide) who(num int) int { return 2*c.pair + num }

func (c *cmSide) listen(ctx context.Context, rounds int, refuse bool, listening chan<- error) error {
	l, err := cm.Listen(ctx, c.w.devs[0], ":7", c.opts...)
	listening <- err
	if err != nil {
		return err
	}
	defer l.Close()
	for i := 0; i < rounds; i++ {
		c.at("waiting for a request")
		r, err := l.Next(ctx)
		if err != nil {
			return err
		}
		if got := r.Param().PrivateData; !bytes.HasPrefix(got, []byte("round")) {
			return wrongf("a request with the private data %q", got)
		}
		if refuse {
			refuse = false
			i--
			if err := r.Reject([]byte("not yet")); err != nil {
				return err
			}
			continue
		}
		c.at("accepting")
		conn, err := r.Accept(ctx)
		if err != nil {
			// The peer may have given up, and asks again.
			i--
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		if err := c.converseOn(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func (c *cmSide) dial(ctx context.Context, rounds int, refuse bool) error {
	for i := range rounds {
		opts := append(c.opts, cm.WithPrivateData([]byte(fmt.Sprint("round ", i))))
		to := c.w.hosts[0].Addr().String() + ":7"
		c.at("dialing")
		conn, err := cm.Dial(ctx, c.w.devs[1], to, opts...)
		var rejected *cm.RejectError
		if refuse && errors.As(err, &rejected) {
			refuse = false
			if got := rejected.PrivateData; !c.w.fatal && !bytes.HasPrefix(got, []byte("not yet")) {
				return wrongf("a rejection with the private data %q", got)
			}
			conn, err = cm.Dial(ctx, c.w.devs[1], to, opts...)
		}
		if err != nil {
			return err
		}
		if err := c.converseOn(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// converseOn has a conversation over a connection, which it closes at once if that fails.
func (c *cmSide) converseOn(ctx context.Context, conn *cm.Conn) error {
	err := c.converse(ctx, conn)
	if err != nil {
		conn.Close()
	}
	return err
}

// converse sends messages and receives the peer's, with a WRITE and a READ of its memory between
// them; the peer's first message says where that is.
func (c *cmSide) converse(ctx context.Context, conn *cm.Conn) error {
	area, err := conn.PD().RegMR(make([]byte, cmArea), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer area.Close()
	own, err := conn.PD().RegMR(make([]byte, 2*cmArea), verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer own.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sends sync.WaitGroup
	var sendErr error
	where := make(chan verbs.Remote, 1)
	sends.Go(func() {
		if sendErr = c.send(ctx, conn, area, own, where); sendErr != nil {
			cancel()
		}
	})
	err = c.receive(ctx, conn, where)
	sends.Wait()
	if err = errors.Join(sendErr, err); err != nil {
		return err
	}
	// A side that has received all says so, and the dialer then ends the connection.
	if c.num == 0 {
		c.at("waiting for the end")
		// The peer may have it and be gone before we know.
		if err := conn.Send(ctx, []byte("end")); err != nil && !errors.Is(err, cm.ErrDisconnected) {
			return err
		}
		if b, err := conn.Recv(ctx); err == nil {
			b.Release()
			return wrongf("a message after the last one")
		} else if err != io.EOF {
			return err
		}
	} else {
		c.at("waiting for the last word")
		b, err := conn.Recv(ctx)
		if err != nil {
			return err
		}
		if got := b.Bytes(); len(got) != 3 || string(got) != "end" {
			return wrongf("last word %q", got)
		}
		b.Release()
	}
	c.at("closing")
	return conn.Close()
}

func (c *cmSide) send(ctx context.Context, conn *cm.Conn, area, own *verbs.MR, where <-chan verbs.Remote) error {
	var head [12]byte
	binary.BigEndian.PutUint64(head[:], area.Addr())
	binary.BigEndian.PutUint32(head[8:], uint32(area.RKey()))
	if err := conn.Send(ctx, head[:]); err != nil {
		return err
	}
	var peer verbs.Remote
	select {
	case peer = <-where:
	case <-ctx.Done():
		return ctx.Err()
	}
	b := make([]byte, cmMessage)
	for i := range c.messages {
		n := 1 + someSize(c.rand, cmMessage-1)
		stamp(b[:n], c.who(c.num), i)
		c.at("sending")
		if err := conn.Send(ctx, b[:n]); err != nil {
			return err
		}
		if c.rand.IntN(2) == 0 {
			n := 1 + someSize(c.rand, cmArea-1)
			off := c.rand.IntN(cmArea - n + 1)
			own.Do(func(b []byte) { stamp(b[:n], 1000+c.who(c.num), i) })
			c.at("writing")
			if err := conn.Write(ctx, own.SGE(0, n), peer.At(uint64(off))); err != nil {
				return err
			}
			c.at("reading")
			if err := conn.Read(ctx, own.SGE(cmArea, n), peer.At(uint64(off))); err != nil {
				return err
			}
			good := false
			own.Do(func(b []byte) { good = bytes.Equal(b[:n], b[cmArea:cmArea+n]) })
			if !good {
				return wrongf("a READ brings what was not written")
			}
		}
	}
	return conn.Send(ctx, []byte{})
}

// receive takes the peer's messages up to the empty one.
func (c *cmSide) receive(ctx context.Context, conn *cm.Conn, where chan<- verbs.Remote) error {
	for i := -1; ; i++ {
		b, err := conn.Recv(ctx)
		if err != nil {
			return err
		}
		got := b.Bytes()
		switch {
		case i < 0:
			if len(got) != 12 {
				return wrongf("a first message of %d bytes", len(got))
			}
			where <- verbs.Remote{Addr: binary.BigEndian.Uint64(got), Key: verbs.Key(binary.BigEndian.Uint32(got[8:]))}
		case len(got) == 0:
			b.Release()
			if i != c.messages {
				return wrongf("%d messages, want %d", i, c.messages)
			}
			return nil
		case !stamped(got, c.who(1-c.num), i):
			return wrongf("message %d, of %d bytes, is not what was sent", i, len(got))
		}
		b.Release()
	}
}
