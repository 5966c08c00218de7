// SPDX-License-Identifier: Apache-2.0

package softdev

const (
	// awaiting polls for nothing but an acknowledgement, between two posts, say that the
	// program waits for it; less may be a look in passing.
	awaiting = 4
	// repeatedly is after how many posts in a row that is believed: a program that wants to
	// know of one post in many does not wait for the others.
	repeatedly = 2
	// impatient is for how many posts it is believed then.
	impatient = 64
)

// patience knows whether the program waits for each of its sends to be acknowledged before
// it does anything else, as latency tests do. Its peer's program probably does so too, and
// should not wait for an acknowledgement of ours that is held back.
type patience struct {
	polls  int // since the last post, for nothing but an acknowledgement
	waited int // posts in a row that were waited for
	left   int // posts for which acknowledgements go along
}

// posted says whether acknowledgements go along with what has just been posted.
func (p *patience) posted() bool {
	if p.polls >= awaiting {
		p.waited++
	} else {
		p.waited = 0
	}
	if p.waited >= repeatedly {
		p.left = impatient
	}
	p.polls = 0
	p.left = max(0, p.left-1)
	return p.left > 0
}
