// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// dialed returns the set-up of a stream that the device dials.
func (d *Device) dialed(depths driver.StreamParam, private []byte, times rdmap.SetupTimes) *rdmap.Handshake {
	h := rdmap.Dial(d.Lane.PassTime(), d.net.Proposal(), private, times)
	h.Limit(depths.IRD, depths.ORD)
	h.Proposal.FewerRNR = depths.FewerRNR
	return h
}

// stage returns how far the set-up has come.
func (c *Conn) stage() rdmap.Stage {
	if c.handshake == nil {
		return rdmap.StageOver
	}
	return c.handshake.Stage()
}

// handleSetup reads and writes during the set-up, as far as the link is ready.
func (c *Conn) handleSetup(read, write bool) {
	switch c.stage() {
	case rdmap.StageLink:
		err := c.link.Connected()
		if errors.Is(err, softdev.ErrAgain) {
			return
		}
		if err != nil {
			c.fail(err)
			return
		}
		c.handshake.Linked(c.dev.Lane.PassTime(), c.link.MSS())
		c.setSetupTimer()
		c.flush()
	case rdmap.StageReply, rdmap.StageRequest:
		if write {
			c.flush()
		}
		if read {
			c.readSetup()
		}
	case rdmap.StageAnswer:
		if read {
			c.fail(errors.New("the peer closed the connection, or sent before it was answered"))
		}
	}
}

func (c *Conn) setSetupTimer() { c.dev.Lane.Timers.Set(&c.timer, c.handshake.Deadline()) }

// flush sends the rest of a set-up frame.
func (c *Conn) flush() {
	h := c.handshake
	if len(h.Output()) > 0 {
		n, err := c.link.Write([][]byte{h.Output()})
		if err != nil && !errors.Is(err, softdev.ErrAgain) {
			c.fail(err)
			return
		}
		h.Sent(n)
	}
	c.link.Watch(true, len(h.Output()) > 0)
}

// readSetup reads the peer's set-up frame.
func (c *Conn) readSetup() {
	h := c.handshake
	for {
		n, err := c.link.Read([][]byte{h.Into()})
		if errors.Is(err, softdev.ErrAgain) {
			return
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the peer ended the connection before it said anything (one of iwarps: wants TLS): %w",
				err)
		}
		if err != nil {
			c.fail(err)
			return
		}
		switch h.Received(c.dev.Lane.PassTime(), n) {
		case rdmap.Continue:
			continue
		case rdmap.Requested:
			l := c.listener
			l.silent.Remove(c.link.PeerAddr().Addr(), c)
			c.setSetupTimer()
			l.onRequest(c)
		case rdmap.Agreed:
			c.begin(c.qp, h.Params)
		case rdmap.Rejected:
			c.rejected()
		case rdmap.Unusable:
			c.unusable()
		case rdmap.Malformed:
			c.fail(h.Err)
		}
		return
	}
}

// peerParam returns the parameters in the peer's frame.
func (c *Conn) peerParam() driver.StreamParam {
	peer := &c.handshake.Peer
	return driver.StreamParam{PrivateData: bytes.Clone(peer.Private), IRD: peer.Depths.ORD, ORD: peer.Depths.IRD,
		FewerRNR: peer.FewerRNR()}
}

var errRejected = errors.New("rejected")

// rejected handles that the peer rejects the request.
func (c *Conn) rejected() {
	if c.failed != nil {
		c.fail(errRejected)
		return
	}
	c.notify(driver.StreamEvent{Type: driver.StreamRejected, Param: c.peerParam()})
	c.End(false)
}

// unusable tells the peer that its reply is of no use.
func (c *Conn) unusable() {
	c.reply()
	err, failed := c.handshake.Err, c.failed
	c.notify(driver.StreamEvent{Type: driver.StreamFailed, Err: err})
	c.events = nil
	c.finish()
	if failed != nil {
		failed(err)
	}
}

// reply sends a final set-up frame.
func (c *Conn) reply() bool {
	frame := c.handshake.Output()
	n, err := c.link.Write([][]byte{frame})
	return err == nil && n == len(frame) // it is short, and nothing was sent on the link yet
}

// accept accepts the connection for a queue pair.
func (c *Conn) accept(q *QP, private []byte) error {
	ok := c.handshake.Accept(c.link.MSS(), private)
	sent := c.reply()
	if !ok {
		c.refuse()
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: iwarp.MPANoRTR.String()}
	}
	if !sent {
		err := errors.New("the reply could not be sent")
		c.fail(err)
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: err.Error()}
	}
	c.begin(q, c.handshake.Params)
	return nil
}

// reject rejects the peer's request. No events of the connection follow.
func (c *Conn) reject(private []byte) {
	c.events = nil
	c.handshake.Reject(private)
	c.reply()
	c.refuse()
}
