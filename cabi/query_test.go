// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "testing"

// Programs multiply lanes with the data rate of one, which is 64/66 of its signals, or 8/10 to QDR. The result is not
// less than the interface's rate.
func TestLinkSpeed(t *testing.T) {
	lanes := map[int]float64{width1x: 1, width2x: 2, width4x: 4, width8x: 8, width12x: 12}
	rates := map[int]float64{speedSDR: 2000, speedDDR: 4000, speedFDR10: 10312.5 * 64 / 66,
		speedEDR: 25781.25 * 64 / 66, speedHDR: 51562.5 * 64 / 66, speedNDR: 100000}
	for _, mbps := range []int64{10000, 25000, 40000, 50000, 100000, 200000, 400000} {
		width, speed := linkSpeed(mbps)
		if got := lanes[int(width)] * rates[int(speed)]; got != float64(mbps) {
			t.Errorf("%d Mbit/s: programs take it for %g", mbps, got)
		}
	}
	for mbps, want := range map[int64]int{100: speedSDR, 1000: speedSDR, 2500: speedSDR, 5000: speedDDR} {
		if width, speed := linkSpeed(mbps); width != width1x || int(speed) != want {
			t.Errorf("%d Mbit/s: width %d, speed %d", mbps, width, speed)
		}
	}
}
