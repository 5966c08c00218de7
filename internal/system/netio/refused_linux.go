// SPDX-License-Identifier: Apache-2.0

package netio

import "net"

// besideSocket returns an error unless c belongs to the socket's network namespace.
func besideSocket(c *net.UDPConn, t transport) error {
	b, ok := t.(*batched)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	b.changes.Lock() // against close
	defer b.changes.Unlock()
	if b.closed.Load() {
		return net.ErrClosed
	}
	var other error
	if err := raw.Control(func(fd uintptr) { other = sameNamespace(int(fd), (*b.ports.Load())[0].fd) }); err != nil {
		return err
	}
	return other
}
