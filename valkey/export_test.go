// SPDX-License-Identifier: Apache-2.0

package valkey

// Sent returns how many messages of a connection were acknowledged.
func Sent(c *Conn) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sends.done
}
