// SPDX-License-Identifier: Apache-2.0

// Publish writes lines into a ring in the memory of every subscriber. Subscribers wait for their memory to
// change, and send nothing back, so the slowest does not slow the others. It misses lines instead, and knows
// how many. One that has gone is left out.
//
//	go run ./examples/publish 127.0.0.1              subscribers, in other terminals
//	seq 1000 | go run ./examples/publish             the publisher; -w 2 waits for two subscribers
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	port     = ":7482"
	slots    = 256
	slotSize = 256
	header   = 16 // number of the line, from 1; CRC of all but itself; length

	last     = 1 << 63          // in the number of the end mark behind the last line
	patience = 10 * time.Second // for a publisher that starts, and for subscribers that end
)

// in has the publisher's lines, and out receives the program's output.
var (
	in  io.Reader = os.Stdin
	out io.Writer = os.Stdout
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	device := flag.String("d", "roce:127.0.0.1", "device")
	wait := flag.Int("w", 1, "publisher: how many subscribers to wait for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	dev, err := ramjet.Open(*device)
	if err != nil {
		return err
	}
	defer dev.Close()
	if flag.NArg() == 0 {
		err = publish(ctx, dev, *wait)
	} else {
		err = subscribe(ctx, dev, flag.Arg(0))
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return err
}

// checksum returns the CRC of a slot, of all but itself. It and put are variables for tests, which put mistakes in
// their place.
var checksum = func(b []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(b[:8]), crc32.IEEETable, b[12:])
}

// encode makes a slot, and returns its length.
func encode(b []byte, number uint64, line string) int {
	n := header + copy(b[header:slotSize], line)
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint32(b[12:], uint32(n-header))
	binary.BigEndian.PutUint32(b[8:], checksum(b[:n]))
	return n
}

// decode returns the number and the line of a slot. It returns zero for one that is not whole: the bytes of
// one WRITE appear in no particular order.
func decode(b []byte) (number uint64, line string) {
	n := header + int(binary.BigEndian.Uint32(b[12:]))
	if n > slotSize || checksum(b[:n]) != binary.BigEndian.Uint32(b[8:]) {
		return 0, ""
	}
	return binary.BigEndian.Uint64(b), string(b[header:n])
}

// subscribers are connections, and the rings at their other ends.
type subscribers map[*cm.Conn]verbs.Remote

func publish(ctx context.Context, dev *verbs.Device, wait int) error {
	l, err := cm.Listen(ctx, dev, port)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", l.Addr())
	s, gone := subscribers{}, make(chan *cm.Conn, wait)
	for len(s) < wait {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		var ring verbs.Remote
		if err := ring.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
			return err
		}
		s[conn] = ring
		go func() {
			<-conn.Done()
			gone <- conn
		}()
	}
	number := uint64(0)
	input, lines := bufio.NewScanner(in), make(chan string)
	go func() { // so that Ctrl-C ends a publisher that waits for its input
		defer close(lines)
		for input.Scan() {
			select {
			case lines <- input.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for more := true; more; {
		var line string
		select {
		case line, more = <-lines:
		case conn := <-gone:
			s.leaveOut(conn, errors.New("it has gone"))
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		if more {
			number++
			s.write(ctx, number, line)
		}
	}
	s.write(ctx, last|(number+1), "")
	fmt.Fprintln(out, number, "lines to", len(s), "subscribers")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for conn := range s { // they go when they have read the last line
		select {
		case <-conn.Done():
		case <-ctx.Done():
		}
		conn.Close()
	}
	return input.Err()
}

// write writes a line into the rings of all.
func (s subscribers) write(ctx context.Context, number uint64, line string) {
	for conn, ring := range s {
		if err := write(ctx, conn, ring, number, line); err != nil {
			s.leaveOut(conn, err)
		}
	}
}

// leaveOut forgets a subscriber.
func (s subscribers) leaveOut(conn *cm.Conn, why error) {
	if _, there := s[conn]; there {
		log.Printf("subscriber %v: %v", conn.PeerAddr(), why)
		delete(s, conn)
		conn.Close()
	}
}

// put writes a slot, by one WRITE.
var put = func(ctx context.Context, conn *cm.Conn, slot verbs.SGE, to verbs.Remote) error {
	return conn.Write(ctx, slot, to)
}

// write writes a line into one ring.
func write(ctx context.Context, conn *cm.Conn, ring verbs.Remote, number uint64, line string) error {
	buf, err := conn.Pool().Get(slotSize)
	if err != nil {
		return err
	}
	defer buf.Release()
	n := encode(buf.Bytes(), number, line)
	return put(ctx, conn, buf.SGE(n), ring.At(number%slots*slotSize))
}

func subscribe(ctx context.Context, dev *verbs.Device, publisher string) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	ring, err := pd.AllocMR(slots*slotSize, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	where, err := ring.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	conn, err := dial(ctx, dev, publisher, cm.WithPD(pd), cm.WithPrivateData(where))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-conn.Done()
		cancel(errors.New("the publisher has gone"))
	}()
	missed := uint64(0)
	for next := uint64(1); ; next++ {
		var got uint64
		var line string
		if err := ring.WaitFor(ctx, func(b []byte) bool {
			got, line = decode(b[next%slots*slotSize:])
			return got&^last >= next
		}); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		missed += got&^last - next // the publisher was round the ring
		if got&last != 0 {
			fmt.Fprintln(out, missed, "lines missed")
			return nil
		}
		next = got
		fmt.Fprintln(out, line)
	}
}

// dial waits for the publisher to start.
func dial(ctx context.Context, dev *verbs.Device, publisher string, opts ...cm.Option) (*cm.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := cm.Dial(ctx, dev, publisher+port, opts...)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}
