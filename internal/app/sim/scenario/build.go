// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxFlows is the most flows of a scenario.
const maxFlows = 1 << 22

// Build makes the simulation. It reads the files that the scenario names.
func (f *File) Build() (*sim.Sim, error) {
	top, nodes, err := f.topology()
	if err != nil {
		return nil, f.at(fmt.Errorf("topology: %w", err), &f.Topology)
	}
	var flows []sim.Flow
	for i := range f.Traffic {
		more, err := f.flows(&f.Traffic[i], rand.New(rand.NewPCG(f.Seed, uint64(i))), top, nodes)
		if err != nil {
			return nil, f.at(fmt.Errorf("traffic %d, %s: %w", i+1, f.Traffic[i].Kind, err), &f.Traffic[i])
		}
		for k := range more {
			for j := range more[k].After {
				more[k].After[j] += int32(len(flows))
			}
		}
		if flows = append(flows, more...); len(flows) > maxFlows {
			return nil, f.at(tooMany(len(flows)), &f.Traffic[i])
		}
	}
	c := f.config()
	if c.Failures, err = f.failures(top); err != nil {
		return nil, err
	}
	s, err := sim.New(c, top, flows)
	if err != nil {
		return nil, f.at(err, f.part(err))
	}
	return s, nil
}

// at adds the file to an error, and the line of the part that it is about, if the file has that.
func (f *File) at(err error, part any) error {
	if line, ok := f.lines[part]; ok {
		return fmt.Errorf("%s:%d: %w", f.name, line, err)
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// part returns the part of the file that an error of the simulation is about; nil: none of its own.
func (f *File) part(err error) any {
	var e *sim.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Part {
	case sim.OfTopology:
		return &f.Topology
	case sim.OfSwitch:
		return &f.Switch
	}
	return &f.Failures[e.Index]
}

// failures returns the failures, by the numbers that their nodes have.
func (f *File) failures(top *sim.Topology) (list []sim.Failure, err error) {
	kinds := map[Word]sim.FailureKind{"link": sim.LinkFails, "switch": sim.SwitchFails, "pause-storm": sim.PauseStorm}
	for i, x := range f.Failures {
		a := x.Node
		if x.Kind == "link" {
			a = x.From
		}
		fail := sim.Failure{Kind: kinds[x.Kind], At: x.At.time(), For: x.For.time()}
		for k, n := range [2]Node{a, x.To} {
			count, from := top.Hosts, 0
			if n.isSwitch {
				count, from = top.Switches, top.Hosts
			}
			if n.num >= count {
				return nil, f.at(fmt.Errorf("failure %d: there is no %v: there are %s and %s, each from 0", i+1, n,
					units.Plural(top.Hosts, "host"), units.Plural(top.Switches, "switch")), &f.Failures[i])
			}
			*[2]*int{&fail.A, &fail.B}[k] = from + n.num
		}
		list = append(list, fail)
	}
	return list, nil
}

func tooMany[N int | float64](n N) error {
	return fmt.Errorf("there would be about %.0f flows: %d at most", float64(n), maxFlows)
}

func (f *File) config() sim.Config {
	firsts := map[Word]sim.Control{"none": sim.NoControl, "cnp": sim.CNPsFirst, "cnp+ack": sim.CNPAckFirst}
	mtus := map[int]verbs.MTU{256: verbs.MTU256, 512: verbs.MTU512, 1024: verbs.MTU1024, 2048: verbs.MTU2048,
		4096: verbs.MTU4096}
	h, w := &f.Host, &f.Switch
	return sim.Config{
		Seed: f.Seed, Until: f.Duration.time(), Payload: f.Payload, Message: int(f.Message), Trace: f.Trace.time(),
		Host: sim.HostConfig{Congestion: h.Congestion.choice, MTU: mtus[h.MTU], Window: int(h.Window), Burst: h.Burst,
			Timeout:    uint8(h.Timeout),
			RetryCount: uint8(h.RetryCount), RNRTimer: uint8(h.RNRTimer), Receives: h.Receives, First: firsts[h.First]},
		Switch: sim.SwitchConfig{InfiniBand: w.credits(), Credits: int(w.Credits), Buffer: int(w.Buffer), PFC: w.PFC,
			Alpha: w.Alpha, AlphaRate: float64(w.AlphaRate), XOn: int(w.XOn), Headroom: int(w.Headroom),
			Trim: int(w.Trim), Spray: w.Paths == "packet",
			Reroute: w.Reroute.time(),
			Watchdog: sim.Watchdog{Detect: w.Watchdog.Detect.time(), Restore: w.Watchdog.Restore.time(),
				Forward: w.Watchdog.Action == "forward"},
			ECN: sim.ECN{KMin: int(w.ECN.KMin), KMax: int(w.ECN.KMax), PMax: w.ECN.PMax, Rate: float64(w.ECN.Rate)}},
	}
}

func (f *File) topology() (*sim.Topology, sim.HPCCNodes, error) {
	t := &f.Topology
	w := sim.Wires{Rate: float64(t.Rate), Uplink: float64(t.Uplink), Delay: t.Delay.time(), Loss: t.Loss}
	switch t.Kind {
	case "star":
		return sim.Star(t.Hosts, w), nil, nil
	case "dumbbell":
		return sim.Dumbbell(t.Hosts, w), nil, nil
	case "leaf-spine":
		if t.Leaves*t.Hosts > sim.MaxHosts {
			return nil, nil, fmt.Errorf("%d leaves with %d hosts: %d hosts at most", t.Leaves, t.Hosts, sim.MaxHosts)
		}
		return sim.LeafSpine(t.Leaves, t.Spines, t.Hosts, w), nil, nil
	case "fat-tree":
		if t.K%2 != 0 {
			return nil, nil, fmt.Errorf("k is %d: an even number is needed", t.K)
		}
		return sim.FatTree(t.K, w), nil, nil
	}
	if t.File == "" {
		return nil, nil, errors.New("hpcc needs a file")
	}
	name, in, err := f.open(t.File)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	return sim.ReadHPCCTopology(in, name)
}

// open opens a file that the scenario names.
func (f *File) open(name string) (string, *os.File, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.folder, name)
	}
	in, err := os.Open(name)
	return name, in, err
}

// flows returns the flows of some traffic.
func (f *File) flows(t *Traffic, r *rand.Rand, top *sim.Topology, nodes sim.HPCCNodes) (flows []sim.Flow, err error) {
	load := sim.Load{Op: operations[t.Op], UD: t.Op == "ud", Size: int64(t.Size), Sizes: t.Sizes.Sizes,
		Start: t.Start.time()}
	switch t.Kind {
	case "flows":
		for i, fl := range t.Flows {
			if max(fl.Src, fl.Dst) >= top.Hosts || fl.Src == fl.Dst {
				return nil, fmt.Errorf("flow %d is from host %d to host %d: expected two of %d hosts, from 0", i+1,
					fl.Src, fl.Dst, top.Hosts)
			}
			flows = append(flows, sim.Flow{Src: int32(fl.Src), Dst: int32(fl.Dst), Size: int64(fl.Size),
				Start: fl.Start.time(), Op: load.Op, UD: load.UD})
		}
		return flows, nil
	case "hpcc":
		return f.hpccFlows(t, &load, nodes)
	case "all-reduce":
		return t.allReduce(&load, top.Hosts)
	case "poisson":
		return f.poisson(t, &load, r, top)
	case "incast":
		if t.Receiver >= top.Hosts || t.Senders >= top.Hosts {
			return nil, fmt.Errorf("%d senders to host %d: there are %d hosts, from 0", t.Senders, t.Receiver,
				top.Hosts)
		}
	}
	for range t.Repeat {
		switch t.Kind {
		case "incast":
			flows = append(flows, load.Incast(r, top.Hosts, t.Senders, t.Receiver)...)
		case "permutation":
			flows = append(flows, load.Permutation(r, top.Hosts)...)
		case "all-to-all":
			if float64(top.Hosts)*float64(top.Hosts) > maxFlows {
				return nil, tooMany(top.Hosts * top.Hosts)
			}
			flows = append(flows, load.AllToAll(r, top.Hosts)...)
		}
		if len(flows) > maxFlows {
			return nil, tooMany(len(flows))
		}
		load.Start += t.Every.time()
	}
	return flows, nil
}

// allReduce returns the flows of an all-reduce.
func (t *Traffic) allReduce(load *sim.Load, hosts int) ([]sim.Flow, error) {
	ranks := t.Ranks
	if ranks == 0 {
		ranks = hosts
	}
	switch n := float64(ranks); {
	case load.UD:
		return nil, fmt.Errorf("op is ud, whose data may be lost: expected write, send or read")
	case ranks < 2 || ranks > hosts:
		return nil, fmt.Errorf("ranks is %d: there are %d hosts, and 2 are needed at least", ranks, hosts)
	case t.Algorithm == "tree":
		return load.Tree(ranks), nil
	case t.Algorithm == "ring" && 2*n*(n-1) > maxFlows:
		return nil, tooMany(2 * n * (n - 1))
	case t.Algorithm == "ring":
		return load.Ring(ranks), nil
	case ranks&(ranks-1) != 0:
		return nil, fmt.Errorf("%d ranks: halving-doubling needs a power of two", ranks)
	}
	return load.HalvingDoubling(ranks), nil
}

var operations = map[Word]verbs.SendOp{"write": verbs.OpWrite, "send": verbs.OpSend, "read": verbs.OpRead,
	"ud": verbs.OpSend}

func (f *File) hpccFlows(t *Traffic, load *sim.Load, nodes sim.HPCCNodes) ([]sim.Flow, error) {
	if nodes == nil {
		return nil, fmt.Errorf("flows of HPCC's format need a topology of it: topology.kind hpcc")
	}
	if t.File == "" {
		return nil, fmt.Errorf("it needs a file")
	}
	name, in, err := f.open(t.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	flows, err := sim.ReadHPCCFlows(in, name, nodes)
	for i := range flows {
		flows[i].Op, flows[i].UD = load.Op, load.UD
	}
	return flows, err
}

func (f *File) poisson(t *Traffic, load *sim.Load, r *rand.Rand, top *sim.Topology) ([]sim.Flow, error) {
	until := t.Until
	if until == 0 {
		until = f.Duration
	}
	if until == 0 {
		return nil, fmt.Errorf("it has no end: give until, or the scenario's duration")
	}
	if top.Hosts < 2 {
		return nil, fmt.Errorf("there is one host only")
	}
	rate := 0.0
	for _, l := range top.Links {
		if min(l.A, l.B) < top.Hosts {
			rate = l.Rate
			break
		}
	}
	if n := load.PoissonFlows(top.Hosts, t.Load, rate, until.time()); n > maxFlows {
		return nil, tooMany(n)
	}
	return load.Poisson(r, top.Hosts, t.Load, rate, until.time()), nil
}
