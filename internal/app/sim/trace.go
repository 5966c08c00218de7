// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/ramjet-rdma/ramjet/verbs"

// Limits of a trace.
const (
	TracedFlows = 64      // the first that begin
	maxSamples  = 200_000 // after which it ends
)

// Sample is the state at a time.
type Sample struct {
	At       Time
	Queue    int       // the most bytes of data that a queue of a switch had since the last sample
	Rates    []float64 // by flow: bits per second that arrived since the last sample
	Controls []float64 // by flow: bits per second that its congestion control allows; 0: it does not pace
}

// sampler takes a sample, and schedules the next.
type sampler struct{}

func (sampler) happen(s *Sim) {
	sample := Sample{At: s.now}
	for _, w := range s.switches {
		for _, p := range w.ports {
			sample.Queue = max(sample.Queue, p.peak)
			p.peak = p.bytes[classData]
		}
	}
	for _, r := range s.traced {
		sender, receiver := r.requester, r.other
		if r.flow.Op == verbs.OpRead {
			sender, receiver = receiver, sender
		}
		sample.Rates = append(sample.Rates, 8*float64(receiver.arrived-r.sampled)/s.config.Trace.Seconds())
		r.sampled = receiver.arrived
		var st verbs.QPStats
		if !sender.over {
			sender.QP.Stats(&st)
		}
		sample.Controls = append(sample.Controls, float64(st.Rate))
	}
	s.Samples = append(s.Samples, sample)
	if len(s.Samples) < maxSamples {
		s.at(s.now+s.config.Trace, sampler{})
	}
}
