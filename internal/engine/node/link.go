// SPDX-License-Identifier: Apache-2.0

package node

// Negotiate returns the width and speed at which two ports run: the best that both have enabled. Zero
// means that there is none in common, and the link stays down (volume 2, chapter 5).
func Negotiate(a, b *Port) (Width, Speed) {
	return (a.Link.WidthEnabled & b.Link.WidthEnabled).Widest(), (a.Link.SpeedEnabled & b.Link.SpeedEnabled).Fastest()
}

// RateMbps returns the data rate of the link, in 10^6 bits a second; 0: it is down.
func (s *State) RateMbps() int64 { return int64(s.WidthActive.Lanes()) * s.SpeedActive.Mbps() }

// Up takes the port to Initialize, at a width and speed that [Negotiate] gave (section 7.2.7).
func (p *Port) Up(w Width, s Speed) {
	p.Link.Physical, p.Link.Logical = PhysLinkUp, Initialize
	p.Link.WidthActive, p.Link.SpeedActive = w, s
}

// Drop takes the port to Down: the link is lost.
func (p *Port) Drop() {
	if p.Link.Logical != Down {
		p.Counters.LinkDowned++
	}
	p.Link.Logical, p.Link.Retrain = Down, false
	if p.Link.Physical != PhysDisabled {
		p.Link.Physical = PhysPolling
	}
}
