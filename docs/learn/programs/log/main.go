// SPDX-License-Identifier: Apache-2.0

// Log is the program of this course: a small log that is kept in one process's memory, and replicated to others.
// Each chapter adds to it. A server has the log; clients append to it, read it and follow it.
//
//	log serve             has the log
//	log hello             connects, and says with what
//	log where             says where the log is in the server's memory        (chapter 3)
//	log append TEXT       asks the server to append: SEND                     (chapter 4)
//	log read              reads the log without the server's program: READ    (chapter 5)
//	log follow N          has a copy, into which the server WRITEs N entries  (chapter 6)
//	log put TEXT          appends without the server's program: atomic, WRITE (chapter 7)
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// port is the server's.
const port = ":7471"

// The log in memory: 64 bytes, of which the first 8 count the entries, then slots of 64 bytes. A slot has the length
// of its text, the text, and in its last byte 1 once the entry is there.
const (
	head     = 64
	slotSize = 64
	slots    = 64
	logSize  = head + slots*slotSize
	maxText  = slotSize - 2
)

// slot returns where entry n is in the log.
func slot(n uint64) int { return head + int(n)*slotSize }

// fill makes a slot.
func fill(b []byte, text string) {
	b[0] = byte(copy(b[1:slotSize-1], text))
	b[slotSize-1] = 1
}

// entry returns the text of a slot, if it is there.
func entry(b []byte) (text string, there bool) {
	return string(b[1 : 1+min(int(b[0]), maxText)]), b[slotSize-1] == 1
}

func main() {
	device := flag.String("d", cmp.Or(os.Getenv("LOG_DEVICE"), "roce:127.0.71.20"), "device")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dev := kit.Must(ramjet.Open(*device))
	defer dev.Close()
	if err := run(ctx, dev, flag.Arg(0), strings.Join(flag.Args()[min(1, flag.NArg()):], " ")); err != nil &&
		ctx.Err() == nil {
		dev.Close()
		fmt.Fprintln(os.Stderr, "log:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dev *verbs.Device, command, argument string) error {
	if command == "serve" {
		return serve(ctx, dev)
	}
	c, err := dial(ctx, dev)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	switch command {
	case "hello":
		return c.hello()
	case "where":
		return c.where()
	case "append":
		return c.append(ctx, argument)
	case "read":
		return c.read(ctx)
	case "follow":
		return c.follow(ctx, argument)
	case "put":
		return c.put(ctx, argument)
	}
	return fmt.Errorf("%q is no command: serve, hello, where, append, read, follow and put are", command)
}
