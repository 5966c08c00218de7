// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"crypto/hmac"
	"crypto/rand"
	"fmt"
	"slices"
)

// Controller is the controller's side of one authentication.
type Controller struct {
	Identities
	Hash  Hash  // that it demands
	Group Group // that it demands

	transaction uint16
	begun       bool
	expects     message
	question    question
	exchange    *exchange
	done        bool
}

// Handle takes a message of the host, and returns the one that the host asks for next; none: there is nothing to say.
// When there is an error the authentication has failed for good; the message tells the host then.
func (c *Controller) Handle(b []byte) (send []byte, err error) {
	var h header
	send, e := c.handle(b, &h)
	if e == 0 {
		return send, nil
	}
	c.begun, c.expects, c.done = true, 0, false
	if h.kind == failure2 {
		return nil, fmt.Errorf("dhchap: the host refuses the controller: %w", e)
	}
	return appendFailure(nil, failure1, c.transaction, e), fmt.Errorf("dhchap: the host's message: %w", e)
}

// Done reports whether the host has proved that it has its secret.
func (c *Controller) Done() bool { return c.done }

func (c *Controller) handle(b []byte, h *header) ([]byte, Explanation) {
	if !h.decode(b) {
		return nil, IncorrectPayload
	}
	if h.kind == negotiate && !c.begun {
		c.begun, c.transaction = true, h.transaction
		return c.ask(b)
	}
	switch {
	case !c.begun || h.transaction != c.transaction:
		return nil, IncorrectPayload
	case h.kind == failure2 && len(b) >= 8:
		return nil, max(Explanation(b[7]), Failed)
	case c.expects == 0 || h.kind != c.expects:
		return nil, IncorrectMessage
	case h.kind == reply:
		return c.judge(b)
	}
	c.expects = 0 // a Success2, which ends it
	return nil, 0
}

// ask answers a Negotiate.
func (c *Controller) ask(b []byte) ([]byte, Explanation) {
	var o offer
	if e := o.decode(b); e != 0 {
		return nil, e
	}
	switch {
	case o.concatenate != 0:
		return nil, ConcatenationDiffer
	case !slices.Contains(o.hashes, c.Hash):
		return nil, HashNotUsable
	case !slices.Contains(o.groups, c.Group):
		return nil, GroupNotUsable
	}
	c.exchange = newExchange(c.Group)
	c.question = question{c.transaction, c.Hash, c.Group, drawSequence(), make([]byte, c.Hash.Size()),
		c.exchange.public}
	rand.Read(c.question.value)
	c.expects = reply
	return c.question.append(nil), 0
}

// judge judges a Reply.
func (c *Controller) judge(b []byte) ([]byte, Explanation) {
	var a answer
	if e := a.decode(b, c.Hash, c.Group); e != 0 {
		return nil, e
	}
	dh, ok := c.exchange.secret(a.public)
	if !ok {
		return nil, IncorrectPayload
	}
	want := c.response(false, c.Hash, dh, c.question.value, c.question.sequence, c.transaction)
	switch {
	case !hmac.Equal(a.response, want):
		return nil, Failed
	case a.challenge == nil:
		c.expects, c.done = 0, true
		return appendSuccess1(nil, c.transaction, c.Hash, nil), 0
	// A controller that answers its own challenge proves nothing, and helps the attacker that sent it there.
	case c.ControllerSecret.IsZero() || hmac.Equal(a.challenge, c.question.value):
		return nil, Failed
	}
	c.expects, c.done = success2, true
	return appendSuccess1(nil, c.transaction, c.Hash,
		c.response(true, c.Hash, dh, a.challenge, a.sequence, c.transaction)), 0
}
