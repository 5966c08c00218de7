// SPDX-License-Identifier: Apache-2.0

package ibcm

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// deadlines is a binary heap of connections by deadline, the next one first. Each connection knows
// its index, so that it can be moved.
type deadlines []*conn

// set moves the deadline of c; 0 removes it.
func (h *deadlines) set(c *conn, t clock.Time) {
	c.deadline = t
	switch {
	case t == 0 && c.due == 0:
	case t == 0:
		h.remove(c)
	case c.due == 0:
		*h = append(*h, c)
		c.due = len(*h)
		h.up(c.due - 1)
	default:
		h.down(h.up(c.due - 1))
	}
}

func (h *deadlines) remove(c *conn) {
	i, last := c.due-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	c.due = 0
	if i < last {
		h.down(h.up(i))
	}
}

func (h *deadlines) up(i int) int {
	for i > 0 && (*h)[i].deadline < (*h)[(i-1)/2].deadline {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h *deadlines) down(i int) {
	for {
		next := 2*i + 1
		if next >= len(*h) {
			return
		}
		if next+1 < len(*h) && (*h)[next+1].deadline < (*h)[next].deadline {
			next++
		}
		if (*h)[i].deadline <= (*h)[next].deadline {
			return
		}
		h.swap(i, next)
		i = next
	}
}

func (h *deadlines) swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].due, s[j].due = i+1, j+1
}
