// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/sim"
)

// File is a scenario.
type File struct {
	Seed     uint64    `yaml:"seed" help:"the same seed leads to the same result"`
	Duration Duration  `yaml:"duration" help:"virtual time after which it ends; 0s: when all flows have ended"`
	Payload  bool      `yaml:"payload" help:"every byte and ICRC is real, and compared; else packets have headers and a length"`
	Message  Size      `yaml:"message" range:"1 67108864" help:"longer flows are several messages"`
	Trace    Duration  `yaml:"trace" help:"from one sample of rates and queues to the next; 0s: none"`
	Topology Topology  `yaml:"topology"`
	Host     Host      `yaml:"host"`
	Switch   Switch    `yaml:"switch"`
	Traffic  []Traffic `yaml:"traffic"`
	Failures []Failure `yaml:"failures"`

	name   string      // of the file, for errors
	folder string      // of the file, which the files that it names are relative to
	lines  map[any]int // by pointer to a value: where the file has it
}

// Topology is hosts, switches and links.
type Topology struct {
	Kind   Word     `yaml:"kind" words:"star dumbbell leaf-spine fat-tree hpcc" help:"star, dumbbell, leaf-spine, fat-tree, or hpcc: a file"`
	File   string   `yaml:"file" help:"in the format of HPCC's simulator"`
	Hosts  int      `yaml:"hosts" range:"1 131072" help:"of a star; of each side, or each leaf"`
	Leaves int      `yaml:"leaves" range:"1 4096"`
	Spines int      `yaml:"spines" range:"1 4096"`
	K      int      `yaml:"k" range:"2 64" help:"ports of a switch, an even number"`
	Rate   Rate     `yaml:"rate" help:"of the hosts' links"`
	Uplink Rate     `yaml:"uplink" help:"of links between switches"`
	Delay  Duration `yaml:"delay" help:"of a link"`
	Loss   float64  `yaml:"loss" range:"0 0.5" help:"share of packets that are corrupted on a link"`
}

var topologyKeys = map[Word][]string{
	"star":       {"hosts", "rate", "delay", "loss"},
	"dumbbell":   {"hosts", "rate", "uplink", "delay", "loss"},
	"leaf-spine": {"leaves", "spines", "hosts", "rate", "uplink", "delay", "loss"},
	"fat-tree":   {"k", "rate", "uplink", "delay", "loss"},
	"hpcc":       {"file"},
}

func (t *Topology) keys() (what string, keys []string) {
	return "topology " + string(t.Kind), topologyKeys[t.Kind]
}

// Host is how hosts behave.
type Host struct {
	Congestion Control `yaml:"congestion" help:"as RAMJET_CC: window, dcqcn, swift, and hpcc; with parameters after commas"`
	MTU        int     `yaml:"mtu" words:"256 512 1024 2048 4096" help:"path MTU, bytes of payload"`
	Window     Size    `yaml:"window" range:"65536 1099511627776" help:"bytes in flight to one host, whatever the congestion control allows"`
	Burst      int     `yaml:"burst" range:"1 64" help:"packets of a queue pair before others have their turn"`
	First      Word    `yaml:"first" words:"none cnp cnp+ack" help:"packets that go first and are never paused: none, cnp, cnp+ack"`
	Receives   int     `yaml:"receives" range:"1 16384" help:"posted for a flow of SENDs"`
	Timeout    int     `yaml:"timeout" range:"0 31" help:"local ACK timeout: 4.096 µs × 2^timeout; 0: none"`
	RetryCount int     `yaml:"retry_cnt" range:"0 7"`
	RNRTimer   int     `yaml:"min_rnr_timer" range:"0 31" help:"as the verbs encode it"`
}

// Switch is how switches behave.
type Switch struct {
	Kind      Word     `yaml:"kind" words:"ethernet infiniband" help:"ethernet, or infiniband: links with credits"`
	Credits   Size     `yaml:"credits" range:"8576 131072" help:"receive buffer of a port for each lane"`
	Buffer    Size     `yaml:"buffer" range:"1 1099511627776" help:"shared by all ports of a switch"`
	PFC       bool     `yaml:"pfc" help:"pause before the buffer is full; else drop"`
	Alpha     float64  `yaml:"alpha" range:"0.0001 1000" help:"a port may take so many times what is free (dynamic threshold)"`
	AlphaRate Rate     `yaml:"alpha_rate" help:"of the port that alpha is for, in proportion; 0b/s: for all"`
	XOn       Size     `yaml:"xon" help:"a pause ends so far below the threshold"`
	Headroom  Size     `yaml:"headroom" help:"of a port, for what arrives after a pause was sent; 0B: by rate and delay"`
	Trim      Size     `yaml:"trim" help:"queue of a port from which on payload is cut, and headers go first; 0B: it is dropped when the buffer is full"`
	Paths     Word     `yaml:"paths" words:"flow packet" help:"how one of equal paths is chosen: flow (ECMP), packet (spraying)"`
	Reroute   Duration `yaml:"reroute" help:"from a failure, or its end, to when switches choose paths accordingly"`
	Watchdog  Watchdog `yaml:"watchdog"`
	ECN       ECN      `yaml:"ecn"`
}

// credits reports whether links have credits: there are two kinds.
func (s *Switch) credits() bool { return s.Kind != "ethernet" }

func (s *Switch) keys() (what string, keys []string) {
	what = "switch " + string(s.Kind)
	if s.credits() {
		return what, []string{"credits", "paths", "reroute", "ecn"}
	}
	return what, []string{"buffer", "pfc", "alpha", "alpha_rate", "xon", "headroom", "trim", "paths", "reroute",
		"watchdog", "ecn"}
}

// Watchdog is a switch's watchdog for pause storms.
type Watchdog struct {
	Detect  Duration `yaml:"detect" help:"a pause that lasts so long is a storm; 0s: there is no watchdog"`
	Restore Duration `yaml:"restore" help:"pauses count again after this time without one"`
	Action  Word     `yaml:"action" words:"drop forward" help:"drop what the pause holds back, or forward it"`
}

// ECN is by which queue lengths packets are marked.
type ECN struct {
	KMin Size    `yaml:"kmin" help:"queue from which on packets are marked (RED)"`
	KMax Size    `yaml:"kmax" help:"queue from which on all are; 0B: none is"`
	PMax float64 `yaml:"pmax" range:"0 1" help:"share that is marked at kmax"`
	Rate Rate    `yaml:"rate" help:"of the port that kmin and kmax are for, in proportion; 0b/s: for all"`
}

// Traffic is flows.
type Traffic struct {
	Kind      Word     `yaml:"kind" words:"incast permutation all-to-all all-reduce poisson flows hpcc"`
	Op        Word     `yaml:"op" words:"write send read ud" help:"write, send or read on RC queue pairs; ud: SENDs of one MTU on UD queue pairs, which may be lost"`
	Size      Size     `yaml:"size" help:"of a flow"`
	Sizes     Sizes    `yaml:"sizes" help:"distribution: websearch, fbhadoop, alistorage; instead of size"`
	Start     Duration `yaml:"start"`
	Until     Duration `yaml:"until" help:"when the last flow begins"`
	Load      float64  `yaml:"load" range:"0.0001 1" help:"share of the hosts' links"`
	Algorithm Word     `yaml:"algorithm" words:"ring halving-doubling tree" help:"ring, halving-doubling, tree"`
	Ranks     int      `yaml:"ranks" range:"0 131072" help:"the first hosts; 0: all"`
	Senders   int      `yaml:"senders" range:"1 131072"`
	Receiver  int      `yaml:"receiver" range:"0 131072" help:"a host, from 0"`
	Repeat    int      `yaml:"repeat" range:"1 1000000" help:"how often"`
	Every     Duration `yaml:"every" help:"from one to the next"`
	File      string   `yaml:"file" help:"in the format of HPCC's simulator"`
	Flows     []Flow   `yaml:"flows"`
}

var trafficKeys = map[Word][]string{
	"incast":      {"op", "size", "sizes", "start", "senders", "receiver", "repeat", "every"},
	"permutation": {"op", "size", "sizes", "start", "repeat", "every"},
	"all-to-all":  {"op", "size", "sizes", "start", "repeat", "every"},
	"all-reduce":  {"op", "size", "start", "algorithm", "ranks"},
	"poisson":     {"op", "size", "sizes", "start", "until", "load"},
	"flows":       {"op", "flows"},
	"hpcc":        {"op", "file"},
}

func (t *Traffic) keys() (what string, keys []string) {
	return "traffic " + string(t.Kind), trafficKeys[t.Kind]
}

// defaults sets the values that a file does not have.
func (t *Traffic) defaults() {
	*t = Traffic{Kind: "permutation", Op: "write", Size: 1e6, Algorithm: "ring", Load: 0.5, Senders: 8, Repeat: 1,
		Every: Duration(time.Millisecond)}
}

// Flow is a flow from one host to another.
type Flow struct {
	Src   int      `yaml:"src" range:"0 131071" help:"a host, from 0"`
	Dst   int      `yaml:"dst" range:"0 131071"`
	Size  Size     `yaml:"size"`
	Start Duration `yaml:"start"`
}

// Failure is a link or a switch that fails, or a host that sends pauses.
type Failure struct {
	Kind Word     `yaml:"kind" words:"link switch pause-storm"`
	From Node     `yaml:"from" help:"an end of the link: host 3, switch 1"`
	To   Node     `yaml:"to" help:"its other end"`
	Node Node     `yaml:"node" help:"host 3, switch 1"`
	At   Duration `yaml:"at"`
	For  Duration `yaml:"for" help:"how long; 0s: to the end"`
}

var failureKeys = map[Word][]string{
	"link":        {"from", "to", "at", "for"},
	"switch":      {"node", "at", "for"},
	"pause-storm": {"node", "at", "for"},
}

func (f *Failure) keys() (what string, keys []string) {
	return "failure " + string(f.Kind), failureKeys[f.Kind]
}

func (f *Failure) defaults() { *f = Failure{Kind: "link"} }

// Default returns the scenario that has every default.
func Default() *File {
	c := sim.DefaultConfig()
	f := &File{
		Seed: c.Seed, Message: Size(c.Message),
		Topology: Topology{Kind: "leaf-spine", Hosts: 8, Leaves: 4, Spines: 4, K: 4, Rate: 100e9, Uplink: 100e9,
			Delay: Duration(time.Microsecond)},
		Host: Host{Congestion: Control{text: c.Host.Congestion.Name, choice: c.Host.Congestion},
			MTU: c.Host.MTU.Bytes(), Window: Size(c.Host.Window), Burst: c.Host.Burst,
			First: "cnp+ack", Receives: c.Host.Receives, Timeout: int(c.Host.Timeout),
			RetryCount: int(c.Host.RetryCount), RNRTimer: int(c.Host.RNRTimer)},
		Switch: Switch{Kind: "ethernet", Credits: Size(c.Switch.Credits), Buffer: Size(c.Switch.Buffer),
			PFC: c.Switch.PFC, Alpha: c.Switch.Alpha, XOn: Size(c.Switch.XOn), Trim: Size(c.Switch.Trim), Paths: "flow",
			Reroute: duration(c.Switch.Reroute),
			Watchdog: Watchdog{Detect: duration(c.Switch.Watchdog.Detect), Restore: duration(c.Switch.Watchdog.Restore),
				Action: "drop"},
			ECN: ECN{Size(c.Switch.ECN.KMin), Size(c.Switch.ECN.KMax), c.Switch.ECN.PMax, Rate(c.Switch.ECN.Rate)}},
	}
	var t Traffic
	t.defaults()
	f.Traffic = []Traffic{t}
	return f
}
