// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bufio"
	"bytes"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Any bytes from a client are carried out or refused, and memory that it only announces is not allocated.
func FuzzClient(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{'*'})
	f.Add([]byte("PING\r\n\r\nSET a b\r\nGET a\r\nHELLO 3\r\nMGET a c\r\nINCR a\r\n" +
		"SUBSCRIBE x\r\nUNSUBSCRIBE\r\nQUIT\r\n"))
	f.Add([]byte("*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n*3\r\n$6\r\nAPPEND\r\n$1\r\na\r\n$0\r\n\r\n"))
	f.Add([]byte("*1048576\r\n$536870912\r\nx"))
	f.Fuzz(func(t *testing.T, in []byte) {
		client, server := net.Pipe()
		done := make(chan bool)
		go func() { new(Server).ServeConn(server); close(done) }()
		go func() { // what it says does not matter
			for b := make([]byte, 4096); ; {
				if _, err := client.Read(b); err != nil {
					return
				}
			}
		}()
		client.Write(in)
		client.Close()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	})
}

func TestAnnouncedOnly(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := reader{bufio.NewReader(strings.NewReader("*1048576\r\n$536870912\r\nx"))}.command()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 1<<20 {
		t.Errorf("%v, %d bytes allocated", err, n)
	}
}

func TestSyntax(t *testing.T) {
	for in, want := range map[string]string{
		"*x\r\n":                       "-ERR protocol error",
		"*1048577\r\n":                 "-ERR protocol error",
		"*1\r\n:1\r\n":                 "-ERR protocol error",
		"*1\r\n$536870913\r\n":         "-ERR protocol error",
		"*1\r\n$1\r\nab\r\n":           "-ERR protocol error",
		strings.Repeat("x", 70000):     "-ERR protocol error",
		"FOO\r\n":                      "-ERR unknown command \"foo\"",
		"GET\r\n":                      "-ERR wrong number",
		"SET a b EX 1\r\n":             "-ERR SET takes no options",
		"SET a b\r\nINCR a\r\n":        "+OK\r\n-ERR value is not an integer",
		"HELLO 4\r\n":                  "-NOPROTO",
		"HELLO 3\r\nGET nothing\r\n":   "%3\r\n$6\r\nserver",
		"CONFIG SET a b\r\n":           "-ERR there is nothing",
		"MSET a\r\n":                   "-ERR wrong number",
		"SUBSCRIBE a\r\nPUBLISH a 1":   "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
		"*1\r\n$4\r\nQUIT\r\nPING\r\n": "+OK\r\n",
	} {
		client, server := net.Pipe()
		go new(Server).ServeConn(server)
		go func() { client.Write([]byte(in)) }()
		got := make([]byte, len(want))
		client.SetDeadline(time.Now().Add(time.Minute))
		for n := 0; n < len(got); {
			k, err := client.Read(got[n:])
			if n += k; err != nil {
				break
			}
		}
		if client.Close(); !bytes.Equal(got, []byte(want)) {
			t.Errorf("%.40q: %q, want %q", in, got, want)
		}
	}
}
