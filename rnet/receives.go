// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// needsSends reports whether messages have to be SENDs: rsockets over iWARP have no WRITE with
// immediate data, because RFC 5040 has none.
func needsSends(dev *verbs.Device) bool { return dev.Query().Transport == verbs.TransportIWARP }

// receives makes the receives of a connection. Receives for messages that are SENDs have slots in
// words, which are used in turn, because receives complete in the order in which they were posted.
type receives struct {
	words *verbs.MR // nil: messages are immediate data, and receives have no memory
	slots int
	slot  int // the next one
	wrs   []verbs.RecvWR
	sge   []verbs.SGE
}

func (r *receives) init(pd *verbs.PD, n int) (err error) {
	r.words, err = pd.RegMR(make([]byte, n*rsocket.WordSize), verbs.LocalWrite)
	r.slots, r.wrs, r.sge = n, make([]verbs.RecvWR, repostBatch), make([]verbs.SGE, repostBatch)
	return err
}

var emptyReceives [repostBatch]verbs.RecvWR

// next returns the next n receives, at most repostBatch.
func (r *receives) next(n int) []verbs.RecvWR {
	if r.words == nil {
		return emptyReceives[:n]
	}
	for i := range n {
		r.sge[i] = r.words.SGE(r.slot*rsocket.WordSize, rsocket.WordSize)
		r.wrs[i] = verbs.RecvWR{ID: uint64(r.slot), SGL: r.sge[i : i+1]}
		if r.slot++; r.slot == r.slots {
			r.slot = 0
		}
	}
	return r.wrs[:n]
}

// word takes a message that is a SEND.
func (c *Conn) word(wc *verbs.WC) {
	if wc.ByteLen != rsocket.WordSize {
		c.fail(fmt.Errorf("%w: it sent %d bytes for a message", rsocket.ErrProtocol, wc.ByteLen))
		return
	}
	// behind WRITEs of which nothing tells
	c.message(c.stream.Word(c.ep.in.words.Bytes()[wc.ID*rsocket.WordSize:]), true)
}
