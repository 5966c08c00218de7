// SPDX-License-Identifier: Apache-2.0

package smbdirect

// Queued returns how many bytes of messages wait to be read.
func Queued(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

// Received returns how many receives of a connection have completed.
func Received(c *Conn) uint64 {
	s, err := c.ep.qp.Stats()
	if err != nil {
		panic(err)
	}
	return s.QPCounts.RecvMessages
}
