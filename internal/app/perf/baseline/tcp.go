// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"errors"
	"io"
	"net"
	"time"
)

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

// echo echoes each message until the client closes.
func echo(conn net.Conn, message []byte) error {
	for {
		if err := readFull(conn, message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

// drain reads to the end of the stream, and confirms with one byte.
func drain(conn net.Conn) error {
	buffer := make([]byte, 1<<20)
	for {
		if _, err := conn.Read(buffer); err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			_, err := conn.Write([]byte{1})
			return err
		}
	}
}

// stream writes, and counts until the confirmation that everything was read.
func stream(conn *net.TCPConn, c Config) (Result, error) {
	message := make([]byte, c.Size)
	start := time.Now()
	var r Result
	for c.Count <= 0 || r.Messages < c.Count {
		if _, err := conn.Write(message); err != nil {
			return r, err
		}
		r.Messages++
		if c.Duration > 0 && time.Since(start) >= c.Duration {
			break
		}
	}
	if err := conn.CloseWrite(); err != nil {
		return r, err
	}
	if err := readFull(conn, message[:1]); err != nil {
		return r, err
	}
	r.Elapsed = time.Since(start)
	r.Bytes = int64(r.Messages) * int64(c.Size)
	return r, nil
}
