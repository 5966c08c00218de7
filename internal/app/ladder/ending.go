// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// tries counts how often requests were sent again since the peer acknowledged the last new one. Packets of one round of
// retransmission count once.
type tries struct {
	last    ib.PSN // of the request that was sent last
	n, rnr  int    // after no answer or a NAK, and after RNR NAKs
	waited  bool   // the last were after an RNR NAK
	known   bool   // the connection manager's messages tell the limits
	retries uint8  // section 12.7.38: retry count
	rnrs    uint8  // RNR retry count; 7: any number
}

// again counts a retransmission, and returns which of how many it is; nothing if it is part of the round before.
func (t *tries) again(psn ib.PSN, waited bool) string {
	if psn.Sub(t.last) > 0 {
		return ""
	}
	t.waited = waited
	if waited {
		t.rnr++
	} else {
		t.n++
	}
	return t.String()
}

// String says which retry the last one was, and of how many.
func (t *tries) String() string {
	switch {
	case t.waited && t.known && t.rnrs == 7:
		return fmt.Sprintf("RNR retry %d of any number", t.rnr)
	case t.waited && t.known:
		return fmt.Sprintf("RNR retry %d of %d", t.rnr, t.rnrs)
	case t.waited:
		return fmt.Sprintf("RNR retry %d", t.rnr)
	case t.known:
		return fmt.Sprintf("retry %d of %d", t.n, t.retries)
	}
	return fmt.Sprintf("retry %d", t.n)
}

// ending holds the facts about a conversation's end that its packets tell.
type ending struct {
	fault   string // the last word, if it is a fault; empty: it is none
	closed  string // the side that closed the connection, and how
	open    string // the requests without an answer when the capture ends
	again   string // the part of it that was sent again
	service bool   // there is an end to be expected: it is no datagrams
}

// end returns the end that a packet comes from, as people call it.
func (c *Conversation) end(fromA bool) string {
	e := c.B
	if fromA {
		e = c.A
	}
	if e.Node != "" {
		return e.Node
	}
	return e.Host.String()
}

// judge learns from a packet whether the last word is a fault. An RNR NAK is, until the peer acknowledges something.
// asked is the flow of the requests.
func (c *Conversation) judge(p *capture.Packet, r *finding, asked *flow, fromA bool, at time.Duration) {
	when := strings.TrimSpace(seconds(at))
	by := func(what string) string { return fmt.Sprintf("%s from %s at %s", what, c.end(fromA), when) }
	info := p.IB.Opcode.Info()
	switch m := r.marks; {
	case m&(Rejected|Terminated) != 0:
		w := describe(p, r)
		c.Ended, c.ending.fault = true,
			by(strings.Join(append([]string{w.op}, w.notes[:min(1, len(w.notes))]...), ", "))
	case m&RNR != 0:
		c.Ended, c.ending.fault = true, by("RNR NAK")
		if asked != nil && asked.tries.rnr > 0 {
			c.ending.fault += " after " + asked.tries.String()
		}
	case m&NAK != 0:
		if c.Ended = p.IB.AETH.Syndrome.Code() != ib.NAKPSNSequenceError; c.Ended {
			c.ending.fault = by(fmt.Sprintf("NAK, %v, PSN %d,", p.IB.AETH.Syndrome.Code(), p.IB.PSN))
		}
	case p.Fabric != capture.IWARP && p.Broken == "" && info.Headers&ib.HasAETH != 0:
		c.Ended, c.ending.fault = false, ""
	}
	c.close(p, c.end(fromA)+" at "+when)
}

// unansweredText is added to the text about a DREQ until it is answered.
const unansweredText = ", which got no answer"

// close notes the side that closes the connection by a packet; by names the packet's sender, and its time.
func (c *Conversation) close(p *capture.Packet, by string) {
	closed := &c.ending.closed
	if p.Fabric == capture.IWARP {
		switch p.Stream.Kind {
		case capture.TCPEnd:
			if *closed == "" {
				*closed = "closed by " + by + " (TCP FIN)"
			}
		case capture.TCPReset:
			*closed = "reset by " + by + " (TCP RST)"
		case capture.TCPOpen:
			*closed = ""
		}
		return
	}
	switch a, _, _, _, ok := message(p); {
	case !ok:
	case a == mad.AttrDREQ && *closed == "":
		*closed = "closed by " + by + " (DREQ)" + unansweredText
	case a == mad.AttrDREP:
		*closed = strings.TrimSuffix(*closed, unansweredText)
	case a == mad.AttrREQ:
		*closed = ""
	}
}

// unanswered finds the requests of a conversation without an answer at the end.
func (c *Conversation) unanswered(f *flow) {
	switch f.service {
	case ib.TransportRC, ib.TransportXRC:
	default:
		return
	}
	if f.known {
		c.ending.service = true
	}
	n := f.next.Sub(f.acked)
	if !f.started || n <= 0 || n >= restart || f.loose || f.peer == nil && !f.tries.known {
		return
	}
	open := fmt.Sprintf("no answer to PSN %s of %s", psns(f.acked, f.next.Add(-1)), c.end(f.fromA))
	if f.tries.n+f.tries.rnr > 0 {
		open += " after " + f.tries.String()
		c.ending.again = join(c.ending.again, open)
	}
	c.ending.open = join(c.ending.open, open)
}

// join puts a comma between texts, of which one may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// EndingSoFar is Ending for a conversation that may go on, as in a process that runs: a fault that is the last word,
// requests that have no answer though they were sent again, and the side that has closed it; nothing if all is well.
func (c *Conversation) EndingSoFar() string {
	e := &c.ending
	said := e.fault
	if said == "" {
		said = e.again
	}
	if said != "" && e.closed != "" {
		return said + ", then " + e.closed
	}
	return said + e.closed
}

// Ending says how the conversation ended; nothing if it is one of datagrams, which do not end.
func (c *Conversation) Ending() string {
	e := &c.ending
	switch {
	case e.fault != "" && e.closed != "":
		return e.fault + ", then " + e.closed
	case e.fault != "":
		return e.fault
	case e.open != "" && e.closed != "":
		return e.open + ", then " + e.closed
	case e.open != "":
		return e.open + ", then the capture ends"
	case e.closed == "" && (e.service || c.Fabric == capture.IWARP):
		return "still open where the capture ends"
	}
	return e.closed
}
