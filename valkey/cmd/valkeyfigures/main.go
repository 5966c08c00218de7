// SPDX-License-Identifier: Apache-2.0

// Command valkeyfigures measures strings of a small server in Go over RDMA beside the same over TCP, on this host: the
// round trip of a GET, and GETs a second at several numbers of connections. Server and clients are in one process,
// and the kinds run in turns, so that a busy machine concerns all alike. Each figure is a median, with its ratio to
// TCP's.
//
//	valkeyfigures [-rounds N] [-time D] [-kinds LIST]
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/valkey/internal/resp"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each kind is measured")
	period := flag.Duration("time", time.Second, "how long each measurement takes")
	kinds := flag.String("kinds", "tcp,shm,roce,iwarp", "what is measured, TCP first")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *period <= 0 || !strings.HasPrefix(*kinds+",", "tcp,") {
		fmt.Fprintln(os.Stderr, "valkeyfigures: [-rounds N] [-time D] [-kinds tcp,shm,...]")
		os.Exit(2)
	}
	if err := measure(strings.Split(*kinds, ","), *rounds, *period); err != nil {
		fmt.Fprintln(os.Stderr, "valkeyfigures:", err)
		os.Exit(1)
	}
}

// figure is something to measure: so many connections, each of which asks for so many bytes again and again.
type figure struct{ conns, size int }

var figures = []figure{{1, 1 << 10}, {16, 1 << 10}, {512, 1 << 10}, {1, 1 << 20}, {16, 1 << 20}, {512, 1 << 20}}

func measure(kinds []string, rounds int, period time.Duration) error {
	fmt.Printf("%d processors; medians of %d rounds of %v\n", runtime.NumCPU(), rounds, period)
	for _, f := range figures {
		rates := map[string][]float64{}
		for range rounds {
			for _, kind := range kinds {
				r, err := rate(kind, f, period)
				if err != nil {
					return fmt.Errorf("%s, %d connections, %d bytes: %w", kind, f.conns, f.size, err)
				}
				rates[kind] = append(rates[kind], r)
			}
		}
		for _, kind := range kinds {
			r := median(rates[kind])
			var ratios []float64
			for i := range rates[kind] {
				ratios = append(ratios, rates[kind][i]/rates["tcp"][i])
			}
			line := fmt.Sprintf(
				"%3d connections  %7d bytes  %-5s  %9.0f GET/s  %6.2f GB/s  %5.2f of TCP (%.2f to %.2f)",
				f.conns, f.size, kind, r, r*float64(f.size)/1e9, median(ratios), slices.Min(ratios), slices.Max(ratios))
			if f.conns == 1 {
				line += fmt.Sprintf("  %v each", time.Duration(float64(time.Second)/r).Round(100*time.Nanosecond))
			}
			fmt.Println(line)
		}
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// patience bounds a measurement that goes on until there are as many GETs as connections.
const patience = 30 * time.Second

// rate returns how many GETs a second there are.
func rate(kind string, f figure, period time.Duration) (float64, error) {
	l, dial, done, err := listen(kind)
	if err != nil {
		return 0, err
	}
	defer done()
	defer l.Close()
	go new(resp.Server).Serve(l)
	conns := make([]net.Conn, f.conns)
	for i := range conns {
		if conns[i], err = dial(l.Addr().String()); err != nil {
			return 0, err
		}
		defer conns[i].Close()
	}
	if err := set(conns[0], f.size); err != nil {
		return 0, err
	}
	var count atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	failed := make(chan error, len(conns))
	for _, c := range conns {
		all.Go(func() {
			if err := gets(c, f.size, &count, &stop); err != nil {
				failed <- err
			}
		})
	}
	time.Sleep(period / 4) // until all are under way
	before, begin := count.Load(), time.Now()
	for time.Sleep(period); count.Load()-before < int64(f.conns) && time.Since(begin) < patience; {
		time.Sleep(period / 10)
	}
	n, took := count.Load()-before, time.Since(begin)
	stop.Store(true)
	all.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
	}
	if n == 0 {
		return 0, fmt.Errorf("not one GET in %v", took.Round(time.Second))
	}
	return float64(n) / took.Seconds(), nil
}

// listen returns a listener of a kind, and the function that dials it.
func listen(kind string) (net.Listener, func(string) (net.Conn, error), func(), error) {
	if kind == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		return l, func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }, func() {}, err
	}
	server, err := ramjet.Open(kind + ":127.90.1.1")
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := ramjet.Open(kind + ":127.90.1.2")
	if err != nil {
		server.Close()
		return nil, nil, nil, err
	}
	done := func() { client.Close(); server.Close() }
	l, err := valkey.Listen(context.Background(), server, ":0")
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	d := valkey.Dialer{Device: client}
	return l, func(addr string) (net.Conn, error) { return d.Dial("rdma", addr) }, done, nil
}

func set(c net.Conn, size int) error {
	value := bytes.Repeat([]byte("v"), size)
	if _, err := fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", size, value); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len("+OK\r\n")))
	return err
}

// gets asks for the string until it has to stop.
func gets(c net.Conn, size int, count *atomic.Int64, stop *atomic.Bool) error {
	in := bufio.NewReaderSize(c, 64<<10)
	value := make([]byte, size+2)
	head := fmt.Sprintf("$%d\r\n", size)
	for !stop.Load() {
		if _, err := io.WriteString(c, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"); err != nil {
			return err
		}
		if line, err := in.ReadString('\n'); err != nil || line != head {
			return errors.Join(err, fmt.Errorf("the reply begins with %.40q", line))
		}
		if _, err := io.ReadFull(in, value); err != nil {
			return err
		}
		count.Add(1)
	}
	return nil
}
