// SPDX-License-Identifier: Apache-2.0

// Kv is a key-value store whose clients read without the server: they READ the slots of its table that a key may be in.
// Only changes of the table go to the server, as messages.
//
//	go run ./examples/kv                            the server
//	go run ./examples/kv 127.0.0.1 put color blue   clients
//	go run ./examples/kv 127.0.0.1 get color
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	port     = ":7481"
	slots    = 1 << 10
	slotSize = 8 << 10 // several packets
	probe    = 4       // slots that a key may be in, one after the other
	area     = (slots + probe - 1) * slotSize
)

// out receives the program's output.
var out io.Writer = os.Stdout

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	device := flag.String("d", "roce:127.0.0.1", "device")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	dev, err := ramjet.Open(*device)
	if err != nil {
		return err
	}
	defer dev.Close()
	if flag.NArg() == 0 {
		err = serve(ctx, dev)
	} else {
		err = client(ctx, dev, flag.Arg(0), flag.Args()[1:])
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return err
}

// checksum protects a slot: a READ takes several packets, and one in the middle of a change has a part of each value.
var checksum = crc32.ChecksumIEEE

// encode fills a slot: a checksum of the rest, the lengths of key and value, and both. It reports whether both fit and
// the key is not empty.
func encode(slot []byte, key, value string) bool {
	if key == "" || 8+len(key)+len(value) > slotSize {
		return false
	}
	binary.BigEndian.PutUint16(slot[4:], uint16(len(key)))
	binary.BigEndian.PutUint16(slot[6:], uint16(len(value)))
	copy(slot[8:], key+value)
	binary.BigEndian.PutUint32(slot, checksum(slot[4:8+len(key)+len(value)]))
	return true
}

var errTorn = errors.New("the slot is being changed")

// decode returns the key and value that encode has put into a slot. The key is empty if nothing is in it.
func decode(slot []byte) (key, value string, err error) {
	k, v := int(binary.BigEndian.Uint16(slot[4:])), int(binary.BigEndian.Uint16(slot[6:]))
	switch {
	case k == 0:
		return "", "", nil
	case 8+k+v > slotSize || checksum(slot[4:8+k+v]) != binary.BigEndian.Uint32(slot):
		return "", "", errTorn
	}
	return string(slot[8 : 8+k]), string(slot[8+k : 8+k+v]), nil
}

// place returns where the slots of a key begin.
func place(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32()%slots) * slotSize
}

func serve(ctx context.Context, dev *verbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	table, err := pd.AllocMR(area, verbs.LocalWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	where, err := table.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	l, err := cm.Listen(ctx, dev, port, cm.WithPD(pd), cm.WithPrivateData(where), cm.WithRecvSize(slotSize))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", l.Addr())
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			for {
				msg, err := conn.Recv(ctx)
				if err != nil {
					return
				}
				answer := put(table, string(msg.Bytes()))
				msg.Release()
				if conn.Send(ctx, []byte(answer)) != nil {
					return
				}
			}
		}()
	}
}

// put changes the table as a message says: a key, a zero byte and a value.
func put(table *verbs.MR, change string) (answer string) {
	key, value, _ := strings.Cut(change, "\x00")
	answer = "there is no room"
	table.Do(func(b []byte) {
		for i := range probe {
			slot := b[place(key)+i*slotSize:][:slotSize]
			if k, _, err := decode(slot); err != nil || k != "" && k != key {
				continue
			}
			if !encode(slot, key, value) {
				answer = "the key is empty, or it is too long with its value"
				return
			}
			answer = "ok"
			return
		}
	})
	return answer
}

func client(ctx context.Context, dev *verbs.Device, server string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := cm.Dial(ctx, dev, server+port)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch {
	case len(args) == 3 && args[0] == "put":
		if err := conn.Send(ctx, []byte(args[1]+"\x00"+args[2])); err != nil {
			return err
		}
		answer, err := conn.Recv(ctx)
		if err != nil {
			return err
		}
		defer answer.Release()
		fmt.Fprintf(out, "%s\n", answer.Bytes())
		return nil
	case len(args) == 2 && args[0] == "get":
		value, err := get(ctx, conn, args[1])
		if err != nil {
			return err
		}
		fmt.Fprintln(out, value)
		return nil
	}
	return errors.New("want put KEY VALUE or get KEY")
}

// errNone is the error of a key that is not in the table.
var errNone = errors.New("there is no")

// read READs slots. It is a variable for tests, which put a mistake in its place.
var read = func(ctx context.Context, conn *cm.Conn, to verbs.SGE, slots verbs.Remote) error {
	return conn.Read(ctx, to, slots)
}

// get reads the slots of a key, without the server.
func get(ctx context.Context, conn *cm.Conn, key string) (string, error) {
	var table verbs.Remote
	if err := table.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
		return "", err
	}
	buf, err := conn.PD().AllocMR(probe*slotSize, conn.PD().Device().Query().SinkAccess)
	if err != nil {
		return "", err
	}
	defer buf.Close()
	for again := true; again; {
		if err := read(ctx, conn, buf.SGE(0, probe*slotSize), table.At(uint64(place(key)))); err != nil {
			return "", err
		}
		again = false
		for i := range probe {
			switch k, value, err := decode(buf.Bytes()[i*slotSize:][:slotSize]); {
			case err != nil:
				again = true
			case k == key:
				return value, nil
			}
		}
	}
	return "", fmt.Errorf("%w %q", errNone, key)
}
