// SPDX-License-Identifier: Apache-2.0

package sa

import "github.com/ramjet-rdma/ramjet/wire/mad/smp"

// rates has the codes of rates (section 15.2.5.16, table of PathRecord:Rate): lanes, and the signalling
// rate of a lane in units of 100 Mb/s.
var rates = [...]struct {
	code  uint8
	lanes int
	lane  int
}{
	{2, 1, 25}, {5, 1, 50}, {3, 4, 25}, {6, 4, 50}, {4, 12, 25}, {7, 4, 100}, {8, 12, 50}, {9, 8, 100}, {10, 12, 100},
	{3, 1, 100}, {6, 8, 25}, {7, 8, 50}, {5, 2, 25}, {3, 2, 50}, {6, 2, 100},
	{11, 1, 140}, {12, 4, 140}, {13, 8, 140}, {14, 12, 140}, {19, 2, 140},
	{15, 1, 250}, {16, 4, 250}, {17, 8, 250}, {18, 12, 250}, {20, 2, 250},
	{20, 1, 500}, {17, 4, 500}, {21, 8, 500}, {22, 12, 500}, {16, 2, 500},
	{16, 1, 1000}, {21, 4, 1000}, {23, 8, 1000}, {24, 12, 1000}, {17, 2, 1000},
}

// The lanes of a width, and the signalling rates of a lane by LinkSpeedActive and LinkSpeedExtActive
// (section 14.2.5.6). Codes of none stand for 0.
var (
	lanesOf     = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	laneRate    = map[uint8]int{1: 25, 2: 50, 4: 100}
	laneRateExt = map[uint8]int{1: 140, 2: 250, 4: 500, 8: 1000}
)

// RateOf returns the code of the rate at which a port's link runs, 0 if there is none.
func RateOf(l *smp.PortLink) uint8 {
	lanes, lane := lanesOf[l.WidthActive], laneRateExt[l.SpeedExtActive]
	if lane == 0 {
		lane = laneRate[l.SpeedActive]
	}
	for _, r := range rates {
		if r.lanes == lanes && r.lane == lane {
			return r.code
		}
	}
	return 0
}

// RateMbps returns the signalling rate of a code in 10^6 bits a second, 0 if the code is none. Codes
// are not in the order of their rates.
func RateMbps(code uint8) int {
	for _, r := range rates {
		if r.code == code {
			return r.lanes * r.lane * 100
		}
	}
	return 0
}

// HighestRate returns the code of the highest rate that a query asks for and that is not above another one, 0 if
// there is none.
func (s Selected) HighestRate(most uint8) (best uint8) {
	for _, r := range rates {
		if mbps := RateMbps(r.code); s.AcceptsRate(r.code) && mbps <= RateMbps(most) && mbps > RateMbps(best) {
			best = r.code
		}
	}
	return best
}

// AcceptsRate reports whether a rate satisfies a query.
func (s Selected) AcceptsRate(code uint8) bool {
	have, want := RateMbps(code), RateMbps(s.Value)
	switch s.Selector {
	case GreaterThan:
		return have > want
	case LessThan:
		return have < want
	case Exactly:
		return have == want
	}
	return true
}
