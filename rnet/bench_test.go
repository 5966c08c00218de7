// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// transports are what the benchmarks compare: the same program over both.
var transports = []struct {
	name string
	pair func(testing.TB, Options) (net.Conn, net.Conn)
}{
	{"ramjet", func(t testing.TB, o Options) (net.Conn, net.Conn) { return testPair(t, o) }},
	{"tcp", func(t testing.TB, _ Options) (net.Conn, net.Conn) { return tcpPair(t) }},
}

func tcpPair(t testing.TB) (net.Conn, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// BenchmarkStream is one way: writes of a size, read into a buffer of 64 KiB. Both ends are
// in one process here.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 64 << 10} {
		for _, tr := range transports {
			b.Run(fmt.Sprintf("%s/%d", tr.name, size), func(b *testing.B) {
				w, r := tr.pair(b, Options{})
				buf, done := make([]byte, size), make(chan error, 1)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				go func() {
					in, left := make([]byte, 64<<10), b.N*size
					for left > 0 {
						n, err := r.Read(in)
						if err != nil {
							done <- err
							return
						}
						left -= n
					}
					done <- nil
				}()
				for range b.N {
					if _, err := w.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkPingPong is 64 bytes there and back.
func BenchmarkPingPong(b *testing.B) {
	for _, tr := range transports {
		b.Run(tr.name, func(b *testing.B) {
			x, y := tr.pair(b, Options{Spin: Busy})
			go func() {
				buf := make([]byte, 64)
				for {
					if _, err := io.ReadFull(y, buf); err != nil {
						return
					}
					if _, err := y.Write(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(x, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
