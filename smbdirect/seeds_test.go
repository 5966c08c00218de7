// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// In virtual time, on networks that lose, repeat and reorder packets and part hosts for a time, a server that works
// like an SMB server with an RDMA channel answers all requests of a client: the server reads the data that the client
// exposes, and the client gets the data that the server wrote.
func TestSeeds(t *testing.T) {
	rdmatest.Run(t, 100, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		sd, cd := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets | rdmatest.Passing)
		up := func(from, n int) int { return from + w.Rand.IntN(n) }
		options := func() smbdirect.Options {
			return smbdirect.Options{SendCredits: up(8, 20), RecvCredits: up(8, 20), MaxSendSize: up(128, 3000),
				MaxReceiveSize: up(128, 3000), MaxFragmentedSize: up(128<<10, 1000)}
		}
		l, err := smbdirect.Listen(t.Context(), sd, ":445", smbdirect.ListenOptions{Options: options()})
		if err != nil {
			w.Fatal(err)
		}
		requests := up(1, 20)
		var plain, channel []int
		for range requests {
			plain, channel = append(plain, up(17, 30000)), append(channel, up(1, 30000))
		}
		server.Go(func(ctx context.Context) error {
			c, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return invert(ctx, c)
		})
		o := options()
		if err := client.Go(func(ctx context.Context) error {
			c, err := smbdirect.Dial(ctx, cd, server.Addr().String(), o)
			if err != nil {
				return err
			}
			defer c.Close()
			for i := range requests {
				if err := ask(ctx, c, byte(i), plain[i], channel[i]); err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
			}
			return nil
		}).Wait(); err != nil {
			w.Fatal(err)
		}
	})
}

// invert serves requests: a descriptor, and bytes that come back. The server inverts the memory that the descriptor
// describes.
func invert(ctx context.Context, c *smbdirect.Conn) error {
	m, err := c.AllocMemory(30000)
	if err != nil {
		return err
	}
	for {
		b, err := c.ReadMessage(ctx)
		if err != nil {
			return nil // the client has closed the connection
		}
		read, _, err := wire.DecodeDescriptors(b[:16], 1)
		if err != nil {
			return err
		}
		write, _, err := wire.DecodeDescriptors(b[16:32], 1)
		if err != nil {
			return err
		}
		n := int(read[0].Length)
		if err := c.ReadRemote(ctx, m, n, read); err != nil {
			return err
		}
		for i := range n {
			m.Bytes()[i] ^= 0xff
		}
		if err := c.WriteRemote(ctx, m, n, write); err != nil {
			return err
		}
		if err := c.WriteMessageInvalidate(ctx, b[32:], write[0].Token); err != nil {
			return err
		}
	}
}

// ask makes a request of [invert].
func ask(ctx context.Context, c *smbdirect.Conn, seed byte, plain, channel int) error {
	from, err := c.AllocMemory(channel)
	if err != nil {
		return err
	}
	to, err := c.AllocMemory(channel)
	if err != nil {
		return err
	}
	data, text := message(seed, channel), message(seed+1, plain)
	copy(from.Bytes(), data)
	reads, err := from.Expose(ctx, 0, channel, false)
	if err != nil {
		return err
	}
	writes, err := to.Expose(ctx, 0, channel, true)
	if err != nil {
		return err
	}
	request := writes.Descriptor().Append(reads.Descriptor().Append(nil))
	if err := c.WriteMessage(ctx, append(request, text...)); err != nil {
		return err
	}
	got, err := c.ReadMessage(ctx)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] ^= 0xff
	}
	if !bytes.Equal(got, text) || !bytes.Equal(to.Bytes(), data) {
		return errors.New("other bytes come back")
	}
	return errors.Join(reads.Close(), writes.Close(), from.Close(), to.Close())
}

// A client whose server dies, or loses its device, learns of it in bounded time, whatever it waits for.
func TestDeaths(t *testing.T) {
	rdmatest.Run(t, 50, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		sd, cd := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets|rdmatest.Passing|rdmatest.Fatal, server)
		o := smbdirect.Options{Idle: time.Minute}
		l, err := smbdirect.Listen(t.Context(), sd, ":445", smbdirect.ListenOptions{Options: o})
		if err != nil {
			w.Fatal(err)
		}
		server.Go(func(ctx context.Context) error {
			c, err := l.Accept(ctx)
			if err != nil {
				return nil // perhaps of the death
			}
			defer c.Close()
			invert(ctx, c)
			return nil
		})
		rounds, every := 5+w.Rand.IntN(30), time.Duration(w.Rand.IntN(3000))*time.Millisecond
		if err := client.Go(func(ctx context.Context) error {
			// Two minutes of silence, and the time that the device takes to give up.
			bounded, cancel := context.WithTimeout(ctx, time.Duration(rounds)*every+10*time.Minute)
			defer cancel()
			c, err := smbdirect.Dial(bounded, cd, server.Addr().String(), o)
			for i := 0; i < rounds && err == nil; i++ {
				if err = ask(bounded, c, byte(i), 100, 20000); err == nil {
					w.Sleep(every)
				}
			}
			if c != nil {
				c.Close()
			}
			if bounded.Err() != nil || err != nil && !server.Died() {
				return fmt.Errorf("the server has died: %t; the client: %w", server.Died(), err)
			}
			return nil
		}).Wait(); err != nil {
			w.Fatal(err)
		}
	})
}
