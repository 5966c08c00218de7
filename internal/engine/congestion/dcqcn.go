// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// dcqcnParams are named as the files of mlx5 are (/sys/class/net/*/ecn/roce_rp), with the values that DCQCN was
// published with.
var dcqcnParams = []Param{
	{"rpg_max_rate", "Mb/s",
		"rate of a queue pair that nothing limits; 0: the link's, or 100 Gb/s where that is not known", 0, 0, 1e7},
	{"rpg_min_rate", "Mb/s", "rate that a queue pair is never below", 10, 0.1, 1e6},
	{"rpg_ai_rate", "Mb/s", "additive increase, R_AI", 40, 0.1, 1e6},
	{"rpg_hai_rate", "Mb/s", "hyper increase, R_HAI", 400, 0.1, 1e6},
	{"rpg_time_reset", "µs", "time between two increases, T", 55, 1, 1e6},
	{"rpg_byte_reset", "bytes", "bytes between two increases, B", 10e6, 1000, 1e12},
	{"rpg_threshold", "increases", "how many of a sort are fast recovery, F", 5, 1, 31},
	{"clamp_tgt_rate", "0 or 1", "whether each notification sets the target to the current rate; 0: only if the timer has increased it since the last", 1, 0, 1},
	{"dce_tcp_g", "1/1024", "weight of a notification in alpha, g", 4, 1, 1023},
	{"dce_tcp_rtt", "µs", "time after which alpha shrinks without a notification, K", 55, 1, 1e6},
	{"initial_alpha_value", "1/1023", "alpha before the first notification", 1023, 0, 1023},
	{notifyParam, "µs", "least time between two notifications that a receiver sends for a queue pair",
		float64(NotifyInterval) / 1e3, 1, 1e6},
}

// DCQCN is the reaction point of DCQCN (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015,
// section 3): a rate that shrinks with notifications, and grows with time and with bytes sent. There is no window.
// The network is expected to lose nothing. If it does, the window to the host reacts.
type DCQCN struct {
	max, min  float64 // bytes per second
	ai, hai   float64
	timeReset clock.Time
	byteReset int
	threshold int
	clamp     bool // the target, by each notification
	g         float64
	alphaTime clock.Time
	packet    int
	scale     float64 // bytes of a link for each that counts
	capped    bool    // paced at max, too, which the user has chosen

	limited   bool    // by a notification
	rate      float64 // current rate R_C, bytes per second
	target    float64 // target rate R_T
	alpha     float64
	alphaAt   clock.Time // when alpha shrinks next
	timeAt    clock.Time // when the timer expires next
	bytes     int        // until the byte counter expires
	timeCount int        // expirations since the last notification
	byteCount int
	next      clock.Time // of the next send
}

const (
	// burstTime is the time in which a burst of a rate leaves. Timers are not much finer, and a send of several packets
	// costs one system call.
	burstTime = 20 * time.Microsecond
	maxBurst  = 72 << 10
	// maxLag and lagPackets are how much later than allowed a send may leave without being slower for that: timers
	// expire late. At a low rate a processor comes as late, and that is a few packets.
	maxLag     = clock.Time(200 * time.Microsecond)
	lagPackets = 16
	// maxSteps is how many increases are caught up with after a pause. As many lead from any rate to any other.
	maxSteps = 4096
)

func microseconds(n float64) clock.Time { return clock.Time(n * float64(time.Microsecond)) }

// perSecond returns the bytes in a second of a rate in Mb/s.
func perSecond(mbps float64) float64 { return mbps * 1e6 / 8 }

func newDCQCN(c Config, v *Values) Controller {
	d := &DCQCN{
		max: perSecond(v.Get("rpg_max_rate")), min: perSecond(v.Get("rpg_min_rate")),
		ai: perSecond(v.Get("rpg_ai_rate")), hai: perSecond(v.Get("rpg_hai_rate")),
		timeReset: microseconds(v.Get("rpg_time_reset")), byteReset: int(v.Get("rpg_byte_reset")),
		threshold: int(v.Get("rpg_threshold")),
		clamp:     v.Get("clamp_tgt_rate") != 0, g: v.Get("dce_tcp_g") / 1024,
		alphaTime: microseconds(v.Get("dce_tcp_rtt")), alpha: v.Get("initial_alpha_value") / 1023,
		packet: c.Packet, scale: 1, capped: v.Get("rpg_max_rate") != 0,
	}
	if c.Link != 0 {
		d.scale = float64(c.Link) / float64(c.Packet)
	}
	if d.max == 0 {
		if d.max = c.LineRate / 8; d.max == 0 {
			d.max = perSecond(100e3)
		}
	}
	d.min = min(d.min, d.max)
	d.rate, d.target = d.max, d.max
	return d
}

// Notified cuts the rate by half of alpha, and alpha grows (equation 1). Without clamp a target outlives notifications
// that follow each other, as by default in network cards: otherwise it is the rate before the last of them.
func (d *DCQCN) Notified(now clock.Time) {
	if d.advance(now); d.clamp || d.timeCount > 0 {
		d.target = d.rate
	}
	if !d.paces() {
		d.next = max(d.next, now) // packets that were not paced are not late
	}
	d.rate = max(d.rate*(1-d.alpha/2), d.min)
	d.alpha = (1-d.g)*d.alpha + d.g
	d.limited = true
	d.timeCount, d.byteCount, d.bytes = 0, 0, d.byteReset
	d.timeAt, d.alphaAt = now+d.timeReset, now+d.alphaTime
}

// advance applies the time that has passed: alpha shrinks (equation 2), and the rate grows.
func (d *DCQCN) advance(now clock.Time) {
	if !d.limited {
		return
	}
	if now >= d.alphaAt {
		n := (now-d.alphaAt)/d.alphaTime + 1
		d.alpha *= math.Pow(1-d.g, float64(n))
		d.alphaAt += n * d.alphaTime
	}
	for steps := 0; d.limited && now >= d.timeAt; steps++ {
		if d.timeAt += d.timeReset; steps == maxSteps {
			d.timeAt = now + d.timeReset
		}
		d.timeCount++
		d.increase()
	}
}

// increase is one step of fast recovery (equation 3), additive increase (4) or hyper increase, which is by as many
// times R_HAI as both counters are beyond the threshold, as in QCN.
func (d *DCQCN) increase() {
	switch most, least := max(d.timeCount, d.byteCount), min(d.timeCount, d.byteCount); {
	case most <= d.threshold:
	case least > d.threshold:
		d.target += float64(least-d.threshold) * d.hai
	default:
		d.target += d.ai
	}
	d.target = min(d.target, d.max)
	d.rate = (d.target + d.rate) / 2
	if d.rate >= d.max-d.ai/2 {
		d.rate, d.limited = d.max, false
	}
}

// paces reports whether sends leave at the rate. Nothing else keeps to a rate that the user has chosen. A queue pair at
// the rate of its link is held back by that.
func (d *DCQCN) paces() bool { return d.limited || d.capped }

// takes returns how long bytes of the link take at the rate.
func (d *DCQCN) takes(bytes float64) clock.Time {
	return clock.Time(bytes / d.rate * float64(time.Second))
}

// Sent counts bytes, and sets the time of the next send.
func (d *DCQCN) Sent(now clock.Time, bytes int) {
	if d.advance(now); !d.paces() {
		return
	}
	onLink := float64(bytes) * d.scale
	lag := max(maxLag, d.takes(float64(lagPackets*d.packet)*d.scale))
	d.next = max(d.next, now-lag) + d.takes(onLink)
	for d.bytes -= int(onLink); d.bytes <= 0 && d.limited; d.bytes += d.byteReset {
		d.byteCount++
		d.increase()
	}
}

// Allows returns the time of the next send, and how much it may be.
func (d *DCQCN) Allows(now clock.Time) Verdict {
	if d.advance(now); !d.paces() {
		return Verdict{Window: AnyWindow, Burst: AnyBurst}
	}
	burst := int(d.rate / d.scale * burstTime.Seconds())
	return Verdict{Window: AnyWindow, Burst: min(max(burst, d.packet), maxBurst), Next: d.next}
}

// State returns the current rate and alpha.
func (d *DCQCN) State() State { return State{Rate: d.rate * 8, Alpha: d.alpha} }

// Nothing else changes the rate.

func (d *DCQCN) Arrived(clock.Time, int)          {}
func (d *DCQCN) RoundTrip(clock.Time, clock.Time) {}
func (d *DCQCN) Lost(clock.Time)                  {}
func (d *DCQCN) Silent(clock.Time)                {}
func (d *DCQCN) Marked(clock.Time)                {}
