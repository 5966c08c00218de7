// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// readerWriter is a disk to be measured.
type readerWriter interface {
	io.ReaderAt
	io.WriterAt
}

// BenchmarkDisk measures a disk in memory by NVMe over RDMA, beside the same disk used directly and by NVMe's commands
// and completions on a TCP connection. The three take turns for several rounds; the metrics are medians: operations a
// second, the median latency in µs, and the rate as a multiple of the other two.
//
//	go test -run - -bench Disk -benchtime 1x .
func BenchmarkDisk(b *testing.B) {
	const size = 64 << 20
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		for _, c := range []struct {
			name  string
			bytes int
			depth int
			write bool
		}{
			{"read-4KiB-1", 4 << 10, 1, false}, {"read-4KiB-128", 4 << 10, 128, false},
			{"write-4KiB-1", 4 << 10, 1, true}, {"write-4KiB-128", 4 << 10, 128, true},
			{"read-128KiB-16", 128 << 10, 16, false}, {"write-128KiB-16", 128 << 10, 16, true},
		} {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				memory := nvme.NewMemory(size)
				s := set(b, kind, nvme.TargetOptions{QueueDepth: 256, QueueMemory: 32 << 20},
					nvme.Namespace{ID: 1, Disk: memory, Size: size, Writable: true, Immediate: true})
				d, err := s.dial(b, nvme.HostOptions{QueueDepth: 129}).Open(within(b), 1)
				ok(b, err)
				disks := []readerWriter{d, memory, overTCP(b, memory, c.bytes)}
				var rates, latencies [3][]float64
				for b.Loop() {
					for range 5 {
						for i, d := range disks {
							rate, latency, err := measure(d, size, c.bytes, c.depth, c.write, 200*time.Millisecond)
							ok(b, err)
							rates[i], latencies[i] = append(rates[i], rate), append(latencies[i], latency)
						}
					}
				}
				rate := median(rates[0])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rate, "ops/s")
				b.ReportMetric(median(latencies[0]), "µs")
				b.ReportMetric(rate/median(rates[1]), "×memory")
				b.ReportMetric(rate/median(rates[2]), "×tcp")
			})
		}
	}
}

func median[T float64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

// measure returns operations a second and their median latency in µs.
func measure(d readerWriter, size int64, n, depth int, write bool, period time.Duration) (rate, latency float64,
	err error) {
	var all sync.WaitGroup
	times, errs := make([][]time.Duration, depth), make([]error, depth)
	start := time.Now()
	for i := range depth {
		all.Go(func() {
			b := make([]byte, n)
			for errs[i] == nil && time.Since(start) < period {
				at, begin := rand.Int64N(size/int64(n))*int64(n), time.Now()
				if write {
					_, errs[i] = d.WriteAt(b, at)
				} else {
					_, errs[i] = d.ReadAt(b, at)
				}
				times[i] = append(times[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return 0, 0, err
		}
	}
	list := slices.Concat(times...)
	return float64(len(list)) / took.Seconds(), float64(median(list).Nanoseconds()) / 1000, nil
}

// tcpDisk is a disk at the other end of a TCP connection, which carries the commands and completions of NVMe, each with
// its data behind it. All operations have the same length.
type tcpDisk struct {
	n    int
	conn net.Conn

	mu     sync.Mutex // held for a command
	unused chan uint16
	slots  [256]struct {
		to   []byte
		done chan error
	}
}

// overTCP serves a disk, and connects to it.
func overTCP(t testing.TB, disk readerWriter, n int) *tcpDisk {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	d := &tcpDisk{n: n, unused: make(chan uint16, 256)}
	for i := range d.slots {
		d.slots[i].done = make(chan error, 1)
		d.unused <- uint16(i)
	}
	d.conn, err = net.Dial("tcp", l.Addr().String())
	ok(t, err)
	server, err := l.Accept()
	ok(t, err)
	t.Cleanup(func() { d.conn.Close(); server.Close() })
	go serveTCP(server, disk, n)
	go d.receive()
	return d
}

// serveTCP carries out commands, one after the other: a disk in memory does not wait.
func serveTCP(c net.Conn, disk readerWriter, n int) {
	in, b := bufio.NewReaderSize(c, 256<<10), make([]byte, wire.CommandSize+n)
	for {
		if _, err := io.ReadFull(in, b[:wire.CommandSize]); err != nil {
			return
		}
		var cmd wire.Command
		cmd.Decode(b)
		off, _ := cmd.LBA()
		out := (&wire.Completion{CID: cmd.CID}).Append(make([]byte, 0, wire.CompletionSize+n))
		if cmd.Opcode == wire.Write {
			if _, err := io.ReadFull(in, b[:n]); err != nil {
				return
			}
			disk.WriteAt(b[:n], int64(off))
		} else {
			out = out[:wire.CompletionSize+n]
			disk.ReadAt(out[wire.CompletionSize:], int64(off))
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (d *tcpDisk) receive() {
	in, head := bufio.NewReaderSize(d.conn, 256<<10), make([]byte, wire.CompletionSize)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		var done wire.Completion
		done.Decode(head)
		s := &d.slots[done.CID]
		_, err := io.ReadFull(in, s.to)
		s.done <- err
	}
}

func (d *tcpDisk) do(op wire.Opcode, out, in []byte, off int64) (int, error) {
	if len(out)+len(in) != d.n {
		return 0, fmt.Errorf("%d bytes, not %d", len(out)+len(in), d.n)
	}
	slot := <-d.unused
	defer func() { d.unused <- slot }()
	d.slots[slot].to = in
	cmd := wire.Command{Opcode: op, CID: slot}
	cmd.SetLBA(uint64(off), 1)
	d.mu.Lock()
	_, err := d.conn.Write(append(cmd.Append(make([]byte, 0, wire.CommandSize+len(out))), out...))
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return d.n, <-d.slots[slot].done
}

// ReadAt reads.
func (d *tcpDisk) ReadAt(b []byte, off int64) (int, error) { return d.do(wire.Read, nil, b, off) }

// WriteAt writes.
func (d *tcpDisk) WriteAt(b []byte, off int64) (int, error) { return d.do(wire.Write, b, nil, off) }
