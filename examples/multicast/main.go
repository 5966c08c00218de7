// SPDX-License-Identifier: Apache-2.0

// Multicast sends a file to many receivers at once: each datagram goes out once, to a multicast group that all have
// joined. Datagrams may be lost. So the sender asks every receiver, over a connection, for the datagrams that it
// misses, and sends them again, until nobody misses anything.
//
//	go run ./examples/multicast 127.0.0.1 copy       receivers, in other terminals
//	go run ./examples/multicast -w 2 FILE            the sender; it waits for two receivers
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	port     = ":7486"
	chunk    = 1000 // bytes of the file in a datagram, which is shorter than any path MTU but the smallest
	header   = 8    // before them: their number
	grh      = 40   // the receiver's queue pair puts a global routing header before every datagram
	burst    = 32   // datagrams that the sender posts before it waits for the last of them
	receives = 1024
	largest  = 1 << 30 // bytes of a file, as a receiver has it in memory
	listed   = 500     // of the missing chunks that one answer has, so that it fits into a message
	patience = 20      // attempts in which nobody gets anything

	waiting = 10 * time.Second // for a sender that starts, and for each answer
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	device := flag.String("d", "roce:127.0.0.1", "device")
	group := flag.String("g", "239.255.77.86", "multicast group")
	wait := flag.Int("w", 1, "sender: how many receivers to wait for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	dev, err := ramjet.Open(*device)
	if err != nil {
		return err
	}
	defer dev.Close()
	m, err := join(ctx, dev, *group)
	switch {
	case err != nil:
	case flag.NArg() == 1:
		err = send(ctx, dev, m, flag.Arg(0), *wait)
	case flag.NArg() == 2:
		err = receive(ctx, dev, m, flag.Arg(0), flag.Arg(1))
	default:
		err = errors.New("give a file to send, or the sender's address and a file to write")
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return err
}

// member is a queue pair that has joined the group.
type member struct {
	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
	to *verbs.AH
	ud cm.UDParam // how to send to the group
}

func join(ctx context.Context, dev *verbs.Device, group string) (m *member, err error) {
	addr, err := netip.ParseAddr(group)
	if err != nil {
		return nil, err
	}
	m = &member{}
	if m.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if m.cq, err = dev.CreateCQ(receives+burst, nil); err != nil {
		return nil, err
	}
	events := cm.NewEventChannel()
	id, err := cm.NewID(events, dev, cm.UDP)
	if err != nil {
		return nil, err
	}
	if err := id.Bind(netip.AddrPort{}); err != nil {
		return nil, err
	}
	if m.qp, err = id.CreateQP(m.pd, verbs.QPInit{SendCQ: m.cq, RecvCQ: m.cq,
		Cap: verbs.QPCap{MaxSendWR: burst, MaxRecvWR: receives}}); err != nil {
		return nil, err
	}
	if err := id.JoinMulticast(addr); err != nil {
		return nil, err
	}
	e, err := events.Get(ctx)
	if err != nil {
		return nil, err
	}
	if e.Type != cm.MulticastJoin {
		return nil, fmt.Errorf("joining %v: %w", addr, e.Err)
	}
	m.ud = e.UD
	m.to, err = m.pd.CreateAH(e.UD.AH)
	return m, err
}

// chunks returns how many chunks a file has.
func chunks(size int) int { return (size + chunk - 1) / chunk }

func send(ctx context.Context, dev *verbs.Device, m *member, name string, wait int) error {
	file, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	l, err := cm.Listen(ctx, dev, port)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	sum := sha256.Sum256(file)
	hello := append(binary.BigEndian.AppendUint64(nil, uint64(len(file))), sum[:]...)
	var receivers []*cm.Conn
	for len(receivers) < wait {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Send(ctx, hello); err != nil {
			return err
		}
		receivers = append(receivers, c)
	}
	missing := make([]uint64, chunks(len(file)))
	for i := range missing {
		missing[i] = uint64(i)
	}
	sent, least, idle := 0, uint64(0), 0
	for len(missing) > 0 {
		if err := m.multicast(ctx, file, missing); err != nil {
			return err
		}
		sent += len(missing)
		var total uint64
		if missing, total, err = ask(ctx, receivers); err != nil {
			return err
		}
		if idle++; least == 0 || total < least {
			least, idle = total, 0
		}
		if idle == patience {
			return fmt.Errorf("%d chunks do not arrive, in %d attempts", total, patience)
		}
	}
	fmt.Println(len(file), "bytes to", wait, "receivers;", sent-chunks(len(file)), "datagrams sent again")
	return nil
}

// multicast sends chunks of a file to the group.
func (m *member) multicast(ctx context.Context, file []byte, numbers []uint64) error {
	mr, err := m.pd.AllocMR(burst*(header+chunk), verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	for part := range slices.Chunk(numbers, burst) {
		for i, number := range part {
			at := i * (header + chunk)
			binary.BigEndian.PutUint64(mr.Bytes()[at:], number)
			n := header + copy(mr.Bytes()[at+header:][:chunk], file[number*chunk:])
			wr := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(at, n)}, AH: m.to, RemoteQPN: m.ud.QPN,
				RemoteQKey: m.ud.QKey}
			if i == len(part)-1 {
				wr.Flags = verbs.Signaled
			}
			if err := m.qp.PostSend(&wr); err != nil {
				return err
			}
		}
		var wc [1]verbs.WC // all buffers are free once the last of them has been sent
		if _, err := m.cq.Wait(ctx, wc[:]); err != nil {
			return err
		}
		if wc[0].Status != verbs.StatusSuccess {
			return wc[0].Status.Err()
		}
	}
	return nil
}

// ask returns chunks that any of the receivers misses, and how many all of them miss.
func ask(ctx context.Context, receivers []*cm.Conn) (missing []uint64, total uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, waiting)
	defer cancel()
	for _, c := range receivers {
		if err := c.Send(ctx, []byte("what is missing?")); err != nil {
			return nil, 0, err
		}
		answer, err := c.Recv(ctx)
		if err != nil {
			return nil, 0, err
		}
		for i, b := 0, answer.Bytes(); len(b) >= 8; i, b = i+1, b[8:] {
			if n := binary.BigEndian.Uint64(b); i == 0 {
				total += n
			} else {
				missing = append(missing, n)
			}
		}
		answer.Release()
	}
	slices.Sort(missing)
	return slices.Compact(missing), total, nil
}

// copied is the file as far as it has come.
type copied struct {
	mu      sync.Mutex
	file    []byte
	missing map[uint64]bool
}

func receive(ctx context.Context, dev *verbs.Device, m *member, sender, name string) error {
	buffers, err := m.pd.AllocMR(receives*(grh+header+chunk), verbs.LocalWrite)
	if err != nil {
		return err
	}
	for i := range receives {
		if err := m.post(buffers, uint64(i)); err != nil {
			return err
		}
	}
	conn, err := dial(ctx, dev, sender)
	if err != nil {
		return err
	}
	defer conn.Close()
	hello, err := conn.Recv(ctx)
	if err != nil {
		return err
	}
	if len(hello.Bytes()) != 8+sha256.Size {
		return errors.New("the sender's first message is no size and SHA-256")
	}
	size, sum := binary.BigEndian.Uint64(hello.Bytes()), [sha256.Size]byte(hello.Bytes()[8:])
	hello.Release()
	if size > largest {
		return fmt.Errorf("the file has %d bytes, and may have %d", size, largest)
	}
	c := &copied{file: make([]byte, size), missing: map[uint64]bool{}}
	for i := range chunks(len(c.file)) {
		c.missing[uint64(i)] = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var taking sync.WaitGroup
	taking.Go(func() { cancel(c.take(ctx, m, buffers)) })
	defer taking.Wait()
	defer cancel(nil)
	for {
		question, err := conn.Recv(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		question.Release()
		if err := conn.Send(ctx, c.answer()); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.missing) > 0 || sha256.Sum256(c.file) != sum {
		return fmt.Errorf("%d chunks are missing, or bytes are wrong", len(c.missing))
	}
	fmt.Println(size, "bytes received, SHA-256 verified")
	return os.WriteFile(name, c.file, 0o666)
}

// post posts the receive of a buffer.
func (m *member) post(buffers *verbs.MR, i uint64) error {
	const size = grh + header + chunk
	return m.qp.PostRecv(&verbs.RecvWR{ID: i, SGL: []verbs.SGE{buffers.SGE(int(i)*size, size)}})
}

// take takes datagrams out of the completion queue.
func (c *copied) take(ctx context.Context, m *member, buffers *verbs.MR) error {
	var wcs [64]verbs.WC
	for {
		n, err := m.cq.Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if wc.Status == verbs.StatusSuccess {
				c.add(buffers.Bytes()[int(wc.ID)*(grh+header+chunk):][grh:max(grh, wc.ByteLen)])
			}
			if err := m.post(buffers, wc.ID); err != nil {
				return err
			}
		}
	}
}

// add puts a chunk into its place, unless it is there.
func (c *copied) add(datagram []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(datagram) < header {
		return
	}
	if number := binary.BigEndian.Uint64(datagram); c.missing[number] {
		delete(c.missing, number)
		copy(c.file[number*chunk:], datagram[header:])
	}
}

// answer returns how many chunks are missing, and the numbers of the first of them.
func (c *copied) answer() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := binary.BigEndian.AppendUint64(nil, uint64(len(c.missing)))
	for i, n := range slices.Sorted(maps.Keys(c.missing)) {
		if i == listed {
			break
		}
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// dial waits for the sender to start.
func dial(ctx context.Context, dev *verbs.Device, sender string) (*cm.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, waiting)
	defer cancel()
	for {
		c, err := cm.Dial(ctx, dev, sender+port)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}
