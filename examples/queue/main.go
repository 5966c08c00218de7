// SPDX-License-Identifier: Apache-2.0

// Queue hands out work by one-sided operations alone. The tasks, the number of the next one and the results
// are in the owner's memory. A worker draws a number by fetch-and-add, READs the task, and WRITEs the
// result. The owner waits for its memory to change. (If a worker dies, its task stays undone: a real program
// would hand it out again.)
//
//	go run ./examples/queue                   the owner: counts the primes below two million
//	go run ./examples/queue 127.0.0.1         workers, in other terminals
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
	"sync"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	port  = ":7483"
	tasks = 200

	// The owner's memory: the number of the next task, the tasks' first numbers, and their results plus
	// one.
	atTasks   = 8
	atResults = atTasks + 8*tasks
	size      = atResults + 8*tasks
)

// each is how many numbers a task has.
var each = uint64(10_000)

// order is the byte order of tasks and results. That of the counter is the owner's own.
var order = binary.BigEndian

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
		err = own(ctx, dev)
	} else {
		err = work(ctx, dev, flag.Arg(0))
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return err
}

func own(ctx context.Context, dev *verbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.AllocMR(size, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic)
	if err != nil {
		return err
	}
	mr.Do(func(b []byte) {
		for i := range tasks {
			order.PutUint64(b[atTasks+8*i:], uint64(i)*each)
		}
	})
	where, err := mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	l, err := cm.Listen(ctx, dev, port, cm.WithPD(pd), cm.WithPrivateData(where))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", l.Addr())
	var workers sync.WaitGroup
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			fmt.Fprintln(out, "worker", conn.PeerAddr())
			workers.Go(func() {
				defer conn.Close()
				select {
				case <-conn.Done():
				case <-ctx.Done():
				}
			})
		}
	}()
	primes := uint64(0)
	for i := range tasks {
		if err := mr.WaitFor(ctx, func(b []byte) bool { return order.Uint64(b[atResults+8*i:]) != 0 }); err != nil {
			return err
		}
		mr.Do(func(b []byte) { primes += order.Uint64(b[atResults+8*i:]) - 1 })
	}
	fmt.Fprintln(out, primes, "primes below", tasks*each)
	l.Close()
	<-accepting
	workers.Wait() // they have yet to draw a number that there is no task for
	return nil
}

// next draws the number of a task. It is a variable for tests, which put a mistake in its place.
var next = func(ctx context.Context, conn *cm.Conn, counter verbs.Remote) (task uint64, err error) {
	return conn.FetchAdd(ctx, counter, 1)
}

func work(ctx context.Context, dev *verbs.Device, owner string) error {
	conn, err := cm.Dial(ctx, dev, owner+port)
	if err != nil {
		return err
	}
	defer conn.Close()
	var memory verbs.Remote
	if err := memory.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
		return err
	}
	buf, err := conn.PD().AllocMR(8, dev.Query().SinkAccess)
	if err != nil {
		return err
	}
	defer buf.Close()
	for done := 0; ; done++ {
		task, err := next(ctx, conn, memory)
		if err != nil {
			return err
		}
		if task >= tasks {
			fmt.Fprintln(out, done, "tasks done")
			return nil
		}
		if err := conn.Read(ctx, buf.SGE(0, 8), memory.At(atTasks+8*task)); err != nil {
			return err
		}
		order.PutUint64(buf.Bytes(), primes(order.Uint64(buf.Bytes()))+1)
		if err := conn.Write(ctx, buf.SGE(0, 8), memory.At(atResults+8*task)); err != nil {
			return err
		}
	}
}

// primes counts the primes among each numbers.
func primes(first uint64) (count uint64) {
	for n := max(2, first); n < first+each; n++ {
		prime := true
		for d := uint64(2); d*d <= n && prime; d++ {
			prime = n%d != 0
		}
		if prime {
			count++
		}
	}
	return count
}
