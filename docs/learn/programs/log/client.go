// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// client is connected to the server, and knows where the log is in its memory.
type client struct {
	conn *cm.Conn
	log  verbs.Remote
}

// dial connects to the server, which is at the same address.
func dial(ctx context.Context, dev *verbs.Device) (*client, error) {
	at, err := address(dev)
	if err != nil {
		return nil, err
	}
	conn, err := cm.Dial(ctx, dev, at+port)
	if err != nil {
		return nil, err
	}
	c, told := &client{conn: conn}, conn.Param().PrivateData
	return c, c.log.UnmarshalBinary(told[:min(len(told), verbs.RemoteSize)])
}

// address returns the IP address of a device, from its GID.
func address(dev *verbs.Device) (string, error) {
	row, err := dev.BestGID(netip.Addr{})
	if err != nil {
		return "", err
	}
	return netip.AddrFrom16(row.GID).Unmap().String(), nil
}

// ask SENDs a message and waits for the answer.
func (c *client) ask(ctx context.Context, message string) (string, error) {
	if err := c.conn.Send(ctx, []byte(message)); err != nil {
		return "", err
	}
	answer, err := c.conn.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer answer.Release()
	return string(answer.Bytes()), nil
}

func (c *client) hello() error {
	fmt.Println("connected to", c.conn.PeerAddr(), "by an", c.conn.QP().Type(), "queue pair in", c.conn.QP().State())
	return nil
}

func (c *client) where() error {
	fmt.Println("the log is in the server's memory at", c.log)
	return nil
}

func (c *client) append(ctx context.Context, text string) error {
	answer, err := c.ask(ctx, "append "+text)
	fmt.Println(answer)
	return err
}

// read READs the whole log into memory of this process.
func (c *client) read(ctx context.Context) error {
	mine, err := c.conn.PD().AllocMR(logSize, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := c.conn.Read(ctx, mine.SGE(0, logSize), c.log); err != nil {
		return err
	}
	print := func(b []byte) {
		for n := range uint64(slots) {
			if text, there := entry(b[slot(n):]); there {
				fmt.Printf("%d %s\n", n, text)
			}
		}
	}
	mine.Do(print)
	return nil
}

// follow has a copy of the log, prints the entries that the server WRITEs into it, and ends after some.
func (c *client) follow(ctx context.Context, entries string) error {
	left, err := strconv.Atoi(entries)
	if err != nil {
		return fmt.Errorf("follow needs a number of entries: %w", err)
	}
	mine, err := c.conn.PD().AllocMR(logSize, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	answer, err := c.ask(ctx, "follow "+mine.Remote().String())
	if err != nil {
		return err
	}
	fmt.Println(answer)
	for ; left > 0; left-- {
		told, err := c.conn.Recv(ctx)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(told.Bytes()), 10, 64)
		told.Release()
		if err != nil || n >= slots {
			return fmt.Errorf("the server says that entry %d has come, and there are %d", n, slots)
		}
		mine.Do(func(b []byte) {
			text, _ := entry(b[slot(n):])
			fmt.Printf("%d %s\n", n, text)
		})
	}
	return nil
}

// put takes a slot by an atomic, WRITEs the entry, and then the byte that says that it is there.
func (c *client) put(ctx context.Context, text string) error {
	n, err := c.conn.FetchAdd(ctx, c.log, 1)
	if err != nil {
		return err
	}
	if n >= slots {
		return fmt.Errorf("the log is full")
	}
	mine, err := c.conn.PD().AllocMR(slotSize, 0)
	if err != nil {
		return err
	}
	mine.Do(func(b []byte) { fill(b, text) })
	there := c.log.At(uint64(slot(n)))
	if err := c.conn.Write(ctx, mine.SGE(0, slotSize-1), there); err != nil {
		return err
	}
	if err := c.conn.Write(ctx, mine.SGE(slotSize-1, 1), there.At(slotSize-1)); err != nil {
		return err
	}
	fmt.Println("entry", n)
	return nil
}
