// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// The other end of benchmarks, and of a test that kills it, is a process of its own, as in life: this test binary with
// these variables set.
const (
	peerNetwork = "RNET_BENCH_NETWORK" // "ramjet" or "tcp"
	peerOptions = "RNET_BENCH_OPTIONS" // JSON
)

func TestMain(m *testing.M) {
	if network := os.Getenv(peerNetwork); network != "" {
		if err := runPeer(network); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testrun.Waits()
	os.Exit(m.Run())
}

// runPeer prints its address on standard output and serves one connection at a time until
// standard input ends. The first byte of a connection is its purpose.
func runPeer(network string) error {
	var o Options
	if err := json.Unmarshal([]byte(os.Getenv(peerOptions)), &o); err != nil {
		return err
	}
	var l net.Listener
	var err error
	if network == "tcp" {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	} else {
		dev, _ := open(&testing.B{})
		l, err = (&ListenConfig{Device: dev, Options: o}).Listen(context.Background(), ":0")
	}
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	return nil
}

func serve(c net.Conn) {
	buf := make([]byte, 64<<10)
	if _, err := io.ReadFull(c, buf[:1]); err != nil {
		return
	}
	if buf[0] == 'e' {
		for {
			if _, err := io.ReadFull(c, buf[:64]); err != nil {
				return
			}
			if _, err := c.Write(buf[:64]); err != nil {
				return
			}
		}
	}
	for {
		if _, err := c.Read(buf); err != nil {
			c.Write(buf[:1]) // everything has been received
			return
		}
	}
}

// dialPeer starts a peer and connects to it.
func dialPeer(b testing.TB, network string, o Options, purpose byte) net.Conn {
	b.Helper()
	c, _ := startPeer(b, network, o, purpose)
	return c
}

// startPeer is dialPeer for tests that kill the peer's process.
func startPeer(b testing.TB, network string, o Options, purpose byte) (net.Conn, *os.Process) {
	b.Helper()
	var d Dialer
	if network == "ramjet" {
		dev, _ := open(b) // or the benchmark is skipped
		d = Dialer{Device: dev, Timeout: 3 * time.Minute, Options: o}
	}
	options, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerNetwork+"="+network, peerOptions+"="+string(options))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	address = strings.TrimSpace(address)
	var c net.Conn
	if network == "tcp" {
		c, err = net.Dial("tcp", address)
	} else {
		c, err = d.Dial("rdma", address)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte{purpose}); err != nil {
		b.Fatal(err)
	}
	return c, cmd.Process
}

var networks = []string{"ramjet", "tcp"}

// BenchmarkStream is one way: writes of a size, read into a buffer of 64 KiB.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 64 << 10} {
		for _, network := range networks {
			b.Run(fmt.Sprintf("%s/%d", network, size), func(b *testing.B) {
				c := dialPeer(b, network, Options{}, 's')
				buf := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := c.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf[:1]); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkPingPong is 64 bytes there and back, with both ends polling where they can.
func BenchmarkPingPong(b *testing.B) {
	for _, network := range networks {
		b.Run(network, func(b *testing.B) {
			c := dialPeer(b, network, Options{Spin: Busy}, 'e')
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
