// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// planted are programs with a mistake that people make, and the same programs without it. Each is a small version of
// one of the examples.
var planted = []struct {
	name string
	play func(w *rdmatest.World, wrong bool)
}{
	{"lost update", lostUpdate},
	{"torn read without a check", tornRead},
	{"a retry that applies twice", appliedTwice},
	{"a notification before its data", earlyNotification},
	{"an answer of one that was given up", lateAnswer},
}

// TestPlanted: each mistake is found within 1,000 seeds, and the programs without them pass.
func TestPlanted(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			start := time.Now()
			f := rdmatest.Find(t, 1000, func(w *rdmatest.World) { p.play(w, true) })
			if f == nil {
				t.Fatal("it is not found")
			}
			t.Logf("after %v: %v", time.Since(start).Round(time.Millisecond), f)
			rdmatest.Run(t, 10, func(w *rdmatest.World) { p.play(w, false) })
		})
	}
}

// served listens on a host with a region whose address and key it sends to each client, and has f serve each
// connection.
func served(w *rdmatest.World, h *rdmatest.Host, dev *verbs.Device, size int,
	f func(ctx context.Context, conn *cm.Conn)) *verbs.MR {
	pd, err := dev.AllocPD()
	if err != nil {
		w.Fatal(err)
	}
	mr, err := pd.AllocMR(size, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic)
	if err != nil {
		w.Fatal(err)
	}
	where, err := mr.Remote().MarshalBinary()
	if err != nil {
		w.Fatal(err)
	}
	l, err := cm.Listen(context.Background(), dev, ":7", cm.WithPD(pd), cm.WithPrivateData(where))
	if err != nil {
		w.Fatal(err)
	}
	h.Go(func(ctx context.Context) error {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			h.Go(func(ctx context.Context) error {
				defer conn.Close()
				f(ctx, conn)
				return nil
			})
		}
	})
	return mr
}

// dial connects to such a host.
func dial(ctx context.Context, dev *verbs.Device, to *rdmatest.Host) (*cm.Conn, verbs.Remote, error) {
	conn, err := cm.Dial(ctx, dev, to.Addr().String()+":7")
	if err != nil {
		return nil, verbs.Remote{}, err
	}
	var r verbs.Remote
	return conn, r, r.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize])
}

// untilDone waits for the end of a connection.
func untilDone(ctx context.Context, conn *cm.Conn) {
	select {
	case <-conn.Done():
	case <-ctx.Done():
	}
}

// wait fails the test if a program has.
func wait(w *rdmatest.World, tasks ...*rdmatest.Task) {
	for _, t := range tasks {
		if err := t.Wait(); err != nil {
			w.Fatal(err)
		}
	}
}

// lostUpdate has clients count in a server's memory: the wrong ones READ the counter and WRITE it back.
func lostUpdate(w *rdmatest.World, wrong bool) {
	server := w.Host("server")
	counter := served(w, server, server.RoCE(), 8, untilDone)
	const clients, each = 2, 3
	var tasks []*rdmatest.Task
	for i := range clients {
		h := w.Host(fmt.Sprint("client", i))
		dev := h.RoCE()
		pause := time.Duration(w.Rand.IntN(int(time.Millisecond)))
		tasks = append(tasks, h.Go(func(ctx context.Context) error {
			conn, r, err := dial(ctx, dev, server)
			if err != nil {
				return err
			}
			defer conn.Close()
			buf, err := conn.Pool().Get(8)
			if err != nil {
				return err
			}
			defer buf.Release()
			for range each {
				w.Sleep(pause)
				if !wrong {
					if _, err := conn.FetchAdd(ctx, r, 1); err != nil {
						return err
					}
					continue
				}
				if err := conn.Read(ctx, buf.SGE(8), r); err != nil {
					return err
				}
				binary.NativeEndian.PutUint64(buf.Bytes(), binary.NativeEndian.Uint64(buf.Bytes())+1)
				if err := conn.Write(ctx, buf.SGE(8), r); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	w.Draw(rdmatest.Packets)
	wait(w, tasks...)
	counter.Do(func(b []byte) {
		if got := binary.NativeEndian.Uint64(b); got != clients*each {
			w.Errorf("the counter is %d, want %d", got, clients*each)
		}
	})
}

// tornRead has a client READ a value of several packets that a server changes. One that is wrong believes what it
// reads; the other one looks at the CRC in front of it. To compare a version at both ends is not enough: packets that
// were lost are read later than the packets behind them.
func tornRead(w *rdmatest.World, wrong bool) {
	const size = 16 << 10
	server, client := w.Host("server"), w.Host("client")
	value := served(w, server, server.RoCE(), size, untilDone)
	dev := client.RoCE()
	w.Draw(rdmatest.Packets)
	server.Go(func(ctx context.Context) error {
		for n := byte(1); ctx.Err() == nil; n++ {
			w.Sleep(100 * time.Microsecond)
			value.Do(func(b []byte) {
				for i := range b[4:] {
					b[4+i] = n
				}
				binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
			})
		}
		return nil
	})
	wait(w, client.Go(func(ctx context.Context) error {
		conn, r, err := dial(ctx, dev, server)
		if err != nil {
			return err
		}
		defer conn.Close()
		buf, err := conn.Pool().Get(size)
		if err != nil {
			return err
		}
		defer buf.Release()
		for range 10 {
			if err := conn.Read(ctx, buf.SGE(size), r); err != nil {
				return err
			}
			b := buf.Bytes()[:size]
			if !wrong && binary.BigEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
				continue // it is being changed
			}
			for i, c := range b[4:] {
				if c != b[4] {
					w.Fatalf("a value begins as version %d, and is version %d from byte %d on", b[4], c, i)
				}
			}
		}
		return nil
	}))
}

// appliedTwice has a client add numbers by messages, and again if no answer comes in time. A server that is wrong
// does not know that it has done so before.
func appliedTwice(w *rdmatest.World, wrong bool) {
	server, client := w.Host("server"), w.Host("client")
	sum, last := uint64(0), uint64(0)
	served(w, server, server.RoCE(), 8, func(ctx context.Context, conn *cm.Conn) {
		for {
			m, err := conn.Recv(ctx)
			if err != nil {
				return
			}
			number, add := binary.BigEndian.Uint64(m.Bytes()), binary.BigEndian.Uint64(m.Bytes()[8:])
			if wrong || number > last {
				sum, last = sum+add, number
			}
			answer := bytes.Clone(m.Bytes()[:8])
			m.Release()
			if conn.Send(ctx, answer) != nil {
				return
			}
		}
	})
	dev, want := client.RoCE(), uint64(0)
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	wait(w, client.Go(func(ctx context.Context) error {
		conn, _, err := dial(ctx, dev, server)
		if err != nil {
			return err
		}
		defer conn.Close()
		for number := uint64(1); number <= 20; number++ {
			message := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, number), number)
			want += number
			for answered := false; !answered; {
				if err := conn.Send(ctx, message); err != nil {
					return err
				}
				soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				for !answered && soon.Err() == nil {
					if m, err := conn.Recv(soon); err == nil {
						answered = binary.BigEndian.Uint64(m.Bytes()) == number
						m.Release()
					}
				}
				cancel()
			}
		}
		return nil
	}))
	if sum != want {
		w.Errorf("the sum is %d, want %d", sum, want)
	}
}

// earlyNotification has a publisher WRITE into a subscriber's memory, and say so over TCP. One that is wrong does not
// wait for the completion.
func earlyNotification(w *rdmatest.World, wrong bool) {
	subscriber, publisher := w.Host("subscriber"), w.Host("publisher")
	memory := served(w, subscriber, subscriber.RoCE(), 8, untilDone)
	dev := publisher.RoCE()
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	l, err := subscriber.Listen(80)
	if err != nil {
		w.Fatal(err)
	}
	const last = 10
	heard := subscriber.Go(func(ctx context.Context) error {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		var number [8]byte
		for range last {
			if _, err := io.ReadFull(c, number[:]); err != nil {
				return err
			}
			memory.Do(func(b []byte) {
				if binary.BigEndian.Uint64(b) < binary.BigEndian.Uint64(number[:]) && !w.Failed() {
					w.Errorf("number %d is announced, and %d is there", binary.BigEndian.Uint64(number[:]),
						binary.BigEndian.Uint64(b))
				}
			})
		}
		return nil
	})
	told := publisher.Go(func(ctx context.Context) error {
		conn, r, err := dial(ctx, dev, subscriber)
		if err != nil {
			return err
		}
		defer conn.Close()
		c, err := publisher.Dial(ctx, "subscriber:80")
		if err != nil {
			return err
		}
		defer c.Close()
		for n := uint64(1); n <= last; n++ {
			buf, err := conn.Pool().Get(8)
			if err != nil {
				return err
			}
			binary.BigEndian.PutUint64(buf.Bytes(), n)
			written := make(chan error, 1)
			go func() {
				written <- conn.Write(ctx, buf.SGE(8), r)
				buf.Release()
			}()
			if !wrong {
				if err := <-written; err != nil {
					return err
				}
			}
			if _, err := c.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
				return err
			}
			if wrong {
				if err := <-written; err != nil {
					return err
				}
			}
		}
		return nil
	})
	wait(w, heard, told)
}

// lateAnswer has workers WRITE the results of tasks into a slot of the owner, which gives a task to the other worker if
// the first one does not answer in time. An owner that is wrong leaves the first one connected.
func lateAnswer(w *rdmatest.World, wrong bool) {
	owner := w.Host("owner")
	conns := make(chan *cm.Conn, 2)
	slot := served(w, owner, owner.RoCE(), 8, func(ctx context.Context, conn *cm.Conn) {
		conns <- conn
		untilDone(ctx, conn)
	})
	var workers []*rdmatest.Host
	for i := range 2 {
		h := w.Host(fmt.Sprint("worker", i))
		dev := h.RoCE()
		workers = append(workers, h)
		h.Go(func(ctx context.Context) error {
			conn, r, err := dial(ctx, dev, owner)
			if err != nil {
				return err
			}
			defer conn.Close()
			buf, err := conn.Pool().Get(8)
			if err != nil {
				return err
			}
			for {
				m, err := conn.Recv(ctx)
				if err != nil {
					return nil
				}
				copy(buf.Bytes(), m.Bytes()) // the task's number is its result
				m.Release()
				w.Sleep(20 * time.Millisecond)
				if conn.Write(ctx, buf.SGE(8), r) != nil {
					return nil
				}
			}
		})
	}
	w.Draw(rdmatest.Loss|rdmatest.Stops|rdmatest.Kills, workers...)
	wait(w, owner.Go(func(ctx context.Context) error {
		var worker *cm.Conn
		for task := uint64(1); task <= 50; {
			for worker == nil {
				select {
				case worker = <-conns:
				case <-time.After(time.Second):
					return nil // no worker is left
				}
			}
			slot.Do(func(b []byte) { binary.BigEndian.PutUint64(b, 0) })
			if worker.Send(ctx, binary.BigEndian.AppendUint64(nil, task)) != nil {
				worker = nil
				continue
			}
			soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			err := slot.WaitFor(soon, func(b []byte) bool { return binary.BigEndian.Uint64(b) != 0 })
			cancel()
			if err != nil {
				if !wrong {
					worker.Close()
				}
				worker = nil // it seems to be dead
				continue
			}
			slot.Do(func(b []byte) {
				if got := binary.BigEndian.Uint64(b); got != task && !w.Failed() {
					w.Errorf("the result of task %d is that of task %d", task, got)
				}
			})
			task++
		}
		return nil
	}))
}
