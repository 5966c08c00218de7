// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Map lets the peer write directly into buf (riomap). Its WriteAt, or riowrite, at offset writes to
// the first byte, and so on. The peer must have room for the mapping, see [Options.IOMaps]. It
// learns of the mapping before it can read anything written after Map.
//
// This side is not notified of such a write. Either the peer says so in the stream afterwards, or
// [verbs.MR.WaitFor] of the region sees it. The region is deregistered with the Conn, or by Unmap.
func (c *Conn) Map(buf []byte, offset int64) (*verbs.MR, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(); err != nil {
		return nil, c.opError("map", err)
	}
	return c.mapNow(offset, func() (*verbs.MR, error) { return c.ep.pd.RegMR(buf, mapAccess) })
}

const mapAccess = verbs.LocalWrite | verbs.RemoteWrite

// mapNow sends a region's mapping to the peer. There is room for the message.
func (c *Conn) mapNow(offset int64, register func() (*verbs.MR, error)) (*verbs.MR, error) {
	if c.maps == nil {
		c.maps = make([]*verbs.MR, c.stream.PeerMaps())
	}
	index := -1
	for i, mr := range c.maps {
		if mr == nil {
			index = i
			break
		}
	}
	if index < 0 {
		return nil,
			c.opError("map", fmt.Errorf("%w: the peer has room for %d mapped buffers", verbs.ErrNoMemory, len(c.maps)))
	}
	mr, err := register()
	if err != nil {
		return nil, c.opError("map", err)
	}
	c.maps[index] = mr
	m := rsocket.IOMap{Offset: uint64(offset),
		SGE: rsocket.SGE{Addr: mr.Addr(), Key: uint32(mr.RKey()), Length: uint32(mr.Len())}}
	c.stream.SendIOMap(index, m, &c.post)
	c.postNow(nil)
	return mr, c.err
}

// Unmap undoes Map: after it returns, the peer does not touch the memory. The peer is not told;
// further writes of it break the connection.
func (c *Conn) Unmap(mr *verbs.MR) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for i, m := range c.maps {
		if m == mr && mr != nil {
			c.maps[i] = nil
			return mr.Close()
		}
	}
	return c.opError("unmap", verbs.ErrNotFound)
}

// WriteAt writes b to memory that the peer has mapped (riowrite), in order with the Writes before
// and after it. It returns when all of it is in flight.
func (c *Conn) WriteAt(b []byte, off int64) (n int, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(b) {
		if err := c.awaitRoom(); err != nil {
			return n, c.opError("write", err)
		}
		k, err := c.writeMapped(b[n:], uint64(off)+uint64(n))
		n += k
		if err != nil {
			return n, c.opError("write", err)
		}
	}
	return n, nil
}

// writeMapped posts one WRITE to the offset. It may return 0: there is no room any more.
func (c *Conn) writeMapped(b []byte, at uint64) (int, error) {
	var m rsocket.IOMap
	var ok bool
	c.ep.tab.Do(func(table []byte) { m, ok = c.stream.FindIOMap(table, at) })
	if !ok {
		return 0, fmt.Errorf("%w: the peer has mapped no memory at %d", verbs.ErrNotFound, at)
	}
	start, k := c.stream.MappedRoom()
	if k = int(min(uint64(k), uint64(len(b)), m.Offset+uint64(m.Length)-at)); k == 0 {
		return 0, nil
	}
	c.ep.fill(start, b[:k])
	c.stream.WriteMapped(m, at, k, &c.post)
	c.postNow(nil)
	return k, c.err
}

// awaitRoom waits until a message can be posted, behind the held one.
func (c *Conn) awaitRoom() error {
	c.flush()
	if err := c.await(&c.write); err != nil {
		return err
	}
	return c.writeErr()
}

// closeMaps deregisters the regions that Map has registered.
func (c *Conn) closeMaps() (err error) {
	for _, mr := range c.maps {
		if mr != nil {
			if e := mr.Close(); e != nil {
				err = e
			}
		}
	}
	return err
}
