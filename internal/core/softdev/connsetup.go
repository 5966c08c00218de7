// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// flush sends the rest of a set-up frame.
func (c *conn) flush() {
	if len(c.out) > 0 {
		n, err := c.link.Write([][]byte{c.out})
		if err != nil && !errors.Is(err, ErrAgain) {
			c.fail(err)
			return
		}
		c.out = c.out[n:]
	}
	c.link.Watch(true, len(c.out) > 0)
}

// readSetup reads the peer's set-up frame.
func (c *conn) readSetup() {
	want := iwarp.Request
	if c.phase == awaitingReply {
		want = iwarp.Reply
	}
	for {
		n, err := c.link.Read([][]byte{c.setup.Into()})
		if errors.Is(err, ErrAgain) {
			return
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the peer ended the connection before it said anything (one of iwarps: wants TLS): %w", err)
		}
		if err != nil {
			c.fail(err)
			return
		}
		done, ok := c.setup.Received(n, want)
		switch {
		case !ok:
			c.fail(errors.New("what the peer sends is no MPA frame: it does not speak iWARP there"))
			return
		case done && c.phase == awaitingReply:
			c.replyReceived()
			return
		case done:
			c.requestReceived()
			return
		}
	}
}

// peerParam returns the parameters in the peer's frame.
func (c *conn) peerParam() driver.StreamParam {
	return driver.StreamParam{PrivateData: bytes.Clone(c.setup.Private), IRD: c.setup.Depths.ORD, ORD: c.setup.Depths.IRD}
}

var errRejected = errors.New("rejected")

// replyReceived handles the peer's reply.
func (c *conn) replyReceived() {
	if c.setup.Rejected() {
		if c.failed != nil {
			c.fail(errRejected)
			return
		}
		c.notify(driver.StreamEvent{Type: driver.StreamRejected, Param: c.peerParam()})
		c.end(false)
		return
	}
	p, cause := c.setup.Replied(&c.proposal)
	if cause != 0 {
		c.reply(rdmap.AppendTerminate(nil, &p, cause))
		err, failed := errors.New("set-up: "+cause.String()), c.failed
		c.notify(driver.StreamEvent{Type: driver.StreamFailed, Err: err})
		c.events = nil
		c.finish()
		if failed != nil {
			failed(err)
		}
		return
	}
	c.begin(c.qp, p)
}

// requestReceived handles the peer's request.
func (c *conn) requestReceived() {
	l := c.listener
	l.silent.Remove(c.link.PeerAddr().Addr(), c)
	c.phase = awaitingAnswer
	c.dev.lane.timers.set(&c.timer, c.dev.lane.passTime()+answerTime)
	l.onRequest(c)
}

// reply sends a final set-up frame.
func (c *conn) reply(frame []byte) bool {
	n, err := c.link.Write([][]byte{frame})
	return err == nil && n == len(frame) // it is short, and nothing was sent on the link yet
}

// accept accepts the connection for a queue pair.
func (c *conn) accept(q *streamQP, private []byte) error {
	c.proposal.MSS = c.link.MSS()
	frame, p, ok := c.setup.Accept(nil, &c.proposal, private)
	sent := c.reply(frame)
	if !ok {
		c.refuse()
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: iwarp.MPANoRTR.String()}
	}
	if !sent {
		err := errors.New("the reply could not be sent")
		c.fail(err)
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: err.Error()}
	}
	c.begin(q, p)
	return nil
}

// reject rejects the peer's request. No events of the connection follow.
func (c *conn) reject(private []byte) {
	c.events = nil
	c.reply(c.setup.Reject(nil, private))
	c.refuse()
}
