// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxTrain is the limit of one GSO send, in datagrams and in bytes.
	maxTrainPackets, maxTrainBytes = 64, 65507
	// creditEvery is how many trains the server acknowledges together.
	creditEvery = 4
	creditSize  = 8 // bytes of all datagrams received
)

// train returns how many bytes of datagrams are sent together.
func (c Config) train() int { return c.Size * max(1, min(maxTrainPackets, maxTrainBytes/c.Size)) }

// serveTrains counts bytes and reports them to the client, which waits for that. Its socket has
// UDP_GRO from the start: trains that arrive before that are split.
func serveTrains(ctx context.Context, raw rawSocket) error {
	buffer, from, credit := make([]byte, 1<<16), new(address), make([]byte, creditSize)
	for total, trains := 0, 0; ; {
		n, err := raw.receive(ctx, buffer, from)
		if err == errSilent && total == 0 {
			continue // the client may start late
		}
		if err != nil {
			return err
		}
		total += n
		trains++
		last := buffer[0] == stop
		if last || trains%creditEvery == 0 {
			binary.BigEndian.PutUint64(credit, uint64(total))
			if err := raw.sendTo(credit, from); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// runTrains keeps a window of trains in flight that the server's buffer holds, so that none is
// lost.
func runTrains(ctx context.Context, raw rawSocket, c Config, to *address) (r Result, err error) {
	if err := unix.SetsockoptInt(raw.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, c.Size); err != nil {
		return r, os.NewSyscallError("setsockopt UDP_SEGMENT", err)
	}
	buffer, err := unix.GetsockoptInt(raw.fd, unix.SOL_SOCKET, unix.SO_RCVBUF) // the server's is of the same size
	if err != nil {
		return r, os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	train, credit := make([]byte, c.train()), make([]byte, creditSize)
	// The server acknowledges only every fourth, or the last.
	window := max(creditEvery*len(train), min(1<<20, buffer/4))
	sent, arrived := 0, 0
	await := func(until int) error {
		for arrived < until {
			if _, err := raw.receive(ctx, credit, nil); err != nil {
				return err
			}
			arrived = int(binary.BigEndian.Uint64(credit))
		}
		return nil
	}
	start := time.Now()
	for last := false; !last; {
		last = c.Count > 0 && sent+len(train) >= c.Count*c.Size || c.Duration > 0 && time.Since(start) >= c.Duration ||
			ctx.Err() != nil
		if last {
			train[0] = stop
			if left := c.Count*c.Size - sent; left > 0 {
				train = train[:min(left, len(train))]
			}
		}
		if err := await(sent + len(train) - window); err != nil {
			return r, err
		}
		if err := raw.sendTo(train, to); err != nil {
			return r, err
		}
		sent += len(train)
	}
	err = await(sent)
	return Result{Messages: sent / c.Size, Bytes: int64(sent), Elapsed: time.Since(start)}, err
}
