// SPDX-License-Identifier: Apache-2.0

// Counter draws numbered tickets from a counter in another process's memory. No number is drawn twice,
// and the server's processor does nothing for it: clients use fetch-and-add.
//
//	go run ./examples/counter                the server
//	go run ./examples/counter 127.0.0.1      a client, in another terminal; any number of them
//
// Try it on shared memory, too: -d shm: for both.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const port = ":7480"

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
	tickets := flag.Int("n", 5, "how many tickets a client draws")
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
		err = draw(ctx, dev, flag.Arg(0), *tickets)
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return err
}

// serve tells each client where the counter is.
func serve(ctx context.Context, dev *verbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	counter, err := pd.AllocMR(8, verbs.LocalWrite|verbs.RemoteAtomic)
	if err != nil {
		return err
	}
	where, err := counter.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	l, err := cm.Listen(ctx, dev, port, cm.WithPD(pd), cm.WithPrivateData(where))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", l.Addr())
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "client", conn.PeerAddr())
		go func() {
			<-conn.Done()
			conn.Close()
			counter.Do(func(b []byte) {
				if b != nil { // the device is open
					fmt.Fprintln(out, binary.NativeEndian.Uint64(b), "tickets drawn")
				}
			})
		}()
	}
}

// next draws a ticket. It is a variable for tests, which put mistakes in its place.
var next = func(ctx context.Context, conn *cm.Conn, counter verbs.Remote) (ticket uint64, err error) {
	return conn.FetchAdd(ctx, counter, 1)
}

// draw draws tickets from the counter of a server.
func draw(ctx context.Context, dev *verbs.Device, server string, n int) error {
	conn, err := cm.Dial(ctx, dev, server+port)
	if err != nil {
		return err
	}
	defer conn.Close()
	var counter verbs.Remote
	if err := counter.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
		return err
	}
	start := time.Now()
	for range n {
		ticket, err := next(ctx, conn, counter)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "ticket", ticket)
	}
	fmt.Fprintf(out, "%v each\n", time.Since(start)/time.Duration(max(1, n)))
	return nil
}
