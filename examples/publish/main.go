// SPDX-License-Identifier: Apache-2.0

// Publish writes lines into a ring in the memory of every subscriber. Subscribers wait for their memory to
// change; they send nothing back, so the slowest does not slow the others. It misses lines instead, and
// knows how many.
//
//	go run ./examples/publish 127.0.0.1              subscribers, in other terminals
//	seq 1000 | go run ./examples/publish             the publisher; -w 2 waits for two subscribers
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
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
	header   = 16 // number of the line, from 1; CRC of what follows, and of the number; length
)

func main() {
	log.SetFlags(0)
	device := flag.String("d", "roce:127.0.0.1", "device")
	wait := flag.Int("w", 1, "publisher: how many subscribers to wait for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	dev, err := ramjet.Open(*device)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	if flag.NArg() == 0 {
		err = publish(ctx, dev, *wait)
	} else {
		err = subscribe(ctx, dev, flag.Arg(0))
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// encode makes a slot, and returns its length.
func encode(b []byte, number uint64, line string) int {
	n := header + copy(b[header:slotSize], line)
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint32(b[12:], uint32(n-header))
	binary.BigEndian.PutUint32(b[8:], crc32.Update(crc32.ChecksumIEEE(b[:8]), crc32.IEEETable, b[12:n]))
	return n
}

// decode returns the number and the line of a slot. It returns zero for one that is not whole: the bytes of
// one WRITE appear in no particular order.
func decode(b []byte) (number uint64, line string) {
	n := header + int(binary.BigEndian.Uint32(b[12:]))
	if n > slotSize || crc32.Update(crc32.ChecksumIEEE(b[:8]), crc32.IEEETable, b[12:n]) != binary.BigEndian.Uint32(b[8:]) {
		return 0, ""
	}
	return binary.BigEndian.Uint64(b), string(b[header:n])
}

// subscriber is a connection, and the ring at its other end.
type subscriber struct {
	conn *cm.Conn
	ring verbs.Remote
}

func publish(ctx context.Context, dev *verbs.Device, wait int) error {
	l, err := cm.Listen(dev, port)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	var subscribers []subscriber
	for len(subscribers) < wait {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		s := subscriber{conn: conn}
		if err := s.ring.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
			return err
		}
		subscribers = append(subscribers, s)
	}
	lines := bufio.NewScanner(os.Stdin)
	number := uint64(0)
	for lines.Scan() {
		number++
		for i := range subscribers {
			if err := subscribers[i].write(ctx, number, lines.Text()); err != nil {
				return err
			}
		}
	}
	for i := range subscribers {
		subscribers[i].conn.Close()
	}
	fmt.Println(number, "lines to", len(subscribers), "subscribers")
	return lines.Err()
}

// write writes a line into the subscriber's ring.
func (s *subscriber) write(ctx context.Context, number uint64, line string) error {
	buf, err := s.conn.Pool().Get(slotSize)
	if err != nil {
		return err
	}
	defer buf.Release()
	n := encode(buf.Bytes(), number, line)
	return s.conn.Write(ctx, buf.SGE(n), s.ring.At(number%slots*slotSize))
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
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-conn.Done()
		time.Sleep(100 * time.Millisecond) // what was written is read
		cancel()
	}()
	missed := uint64(0)
	for next := uint64(1); ; next++ {
		var got uint64
		var line string
		if ring.WaitFor(ctx, func(b []byte) bool {
			got, line = decode(b[next%slots*slotSize:])
			return got >= next
		}) != nil {
			break
		}
		missed += got - next // the publisher was round the ring
		next = got
		fmt.Println(line)
	}
	fmt.Println(missed, "lines missed")
	return nil
}

// dial waits for the publisher to start.
func dial(ctx context.Context, dev *verbs.Device, publisher string, opts ...cm.Option) (*cm.Conn, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		conn, err := cm.Dial(ctx, dev, publisher+port, opts...)
		if err == nil || time.Now().After(end) {
			return conn, err
		}
	}
}
