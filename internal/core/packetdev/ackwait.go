// SPDX-License-Identifier: Apache-2.0

package packetdev

const (
	// awaitingPolls is how many polls between two posts must find nothing but a missing
	// acknowledgement for the program to count as waiting for it. Fewer may be incidental.
	awaitingPolls = 4
	// awaitedPosts is how many posts in a row must be waited for: a program that wants to know of
	// one post in many does not wait for the others.
	awaitedPosts = 2
	// eagerPosts is how many posts then carry acknowledgements along.
	eagerPosts = 64
)

// ackWait tracks whether the program waits for each of its sends to be acknowledged before it does
// anything else, as latency tests do. Its peer's program probably does so too, and should not wait
// for an acknowledgement that we hold back.
type ackWait struct {
	polls  int // since the last post, while only an acknowledgement was missing
	waited int // posts in a row that the program waited for
	left   int // posts left that carry acknowledgements along
}

// posted reports whether acknowledgements are sent along with the work requests that were just posted.
func (p *ackWait) posted() bool {
	if p.polls >= awaitingPolls {
		p.waited++
	} else {
		p.waited = 0
	}
	if p.waited >= awaitedPosts {
		p.left = eagerPosts
	}
	p.polls = 0
	p.left = max(0, p.left-1)
	return p.left > 0
}
