// SPDX-License-Identifier: Apache-2.0

package node

import "fmt"

// Type is the type of a node (section 14.2.5.3).
type Type uint8

const (
	CA     Type = 1 // channel adapter
	Switch Type = 2
	Router Type = 3
)

var types = [...]string{CA: "channel adapter", Switch: "switch", Router: "router"}

func (t Type) String() string {
	if int(t) < len(types) && types[t] != "" {
		return types[t]
	}
	return fmt.Sprintf("reserved node type %d", uint8(t))
}

// LinkState is the logical state of a port (section 7.2.7). Zero in a Set means: no change.
type LinkState uint8

const (
	NoChange   LinkState = 0
	Down       LinkState = 1
	Initialize LinkState = 2 // only subnet management packets and flow control pass
	Armed      LinkState = 3 // data packets are taken, none are sent; the first received one activates the port
	Active     LinkState = 4
)

var linkStates = [...]string{"no change", "Down", "Initialize", "Armed", "Active"}

func (s LinkState) String() string {
	if int(s) < len(linkStates) {
		return linkStates[s]
	}
	return fmt.Sprintf("reserved state %d", uint8(s))
}

// PhysState is the state of a port's link training (section 5.9 of volume 2, table of PortInfo).
type PhysState uint8

const (
	PhysSleep    PhysState = 1
	PhysPolling  PhysState = 2 // no signal from another end
	PhysDisabled PhysState = 3
	PhysTraining PhysState = 4
	PhysLinkUp   PhysState = 5
	PhysRecovery PhysState = 6
)

var physStates = [...]string{"no change", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
	"LinkErrorRecovery"}

func (s PhysState) String() string {
	if int(s) < len(physStates) {
		return physStates[s]
	}
	return fmt.Sprintf("reserved state %d", uint8(s))
}

// Width is a set of link widths, or one of them, as PortInfo has it (section 14.2.5.6).
type Width uint8

const (
	Width1x  Width = 1 << 0
	Width4x  Width = 1 << 1
	Width8x  Width = 1 << 2
	Width12x Width = 1 << 3
	Width2x  Width = 1 << 4
)

// width is a single width.
type width struct {
	w     Width
	lanes int
}

// widths are the single widths, the widest first.
var widths = [...]width{{Width12x, 12}, {Width8x, 8}, {Width4x, 4}, {Width2x, 2}, {Width1x, 1}}

// widest returns the widest of the set, and zeros for the empty set.
func (w Width) widest() width {
	for _, c := range widths {
		if w&c.w != 0 {
			return c
		}
	}
	return width{}
}

// Lanes returns the lanes of the widest of the set, 0: the set is empty.
func (w Width) Lanes() int { return w.widest().lanes }

// Widest returns the widest of the set alone.
func (w Width) Widest() Width { return w.widest().w }

func (w Width) String() string { return fmt.Sprintf("%dX", w.Lanes()) }

// Speed is a set of lane speeds, or one of them. PortInfo has the slow ones in the low four bits, and
// the extended ones (LinkSpeedExt) from bit 4 on here (section 14.2.5.6).
type Speed uint8

const (
	SDR Speed = 1 << 0 // 2.5 Gb/s a lane
	DDR Speed = 1 << 1 // 5 Gb/s
	QDR Speed = 1 << 2 // 10 Gb/s
	FDR Speed = 1 << 4 // 14.0625 Gb/s
	EDR Speed = 1 << 5 // 25.78125 Gb/s
	HDR Speed = 1 << 6 // 53.125 Gb/s
	NDR Speed = 1 << 7 // 106.25 Gb/s
)

// speed is a single speed. mbps is the rate of data, after line coding: 8b/10b up to QDR, 64b/66b from FDR
// on.
type speed struct {
	s    Speed
	name string
	mbps int64
}

// speeds are the single speeds, the fastest first.
var speeds = [...]speed{
	{NDR, "NDR", 100_000}, {HDR, "HDR", 50_000}, {EDR, "EDR", 25_000}, {FDR, "FDR", 13_636},
	{QDR, "QDR", 8_000}, {DDR, "DDR", 4_000}, {SDR, "SDR", 2_000},
}

// fastest returns the fastest of the set.
func (s Speed) fastest() speed {
	for _, c := range speeds {
		if s&c.s != 0 {
			return c
		}
	}
	return speed{name: "no speed"}
}

// Fastest returns the fastest of the set alone.
func (s Speed) Fastest() Speed { return s.fastest().s }

// Mbps returns the data rate of a lane at the fastest of the set, in 10^6 bits a second.
func (s Speed) Mbps() int64 { return s.fastest().mbps }

func (s Speed) String() string { return s.fastest().name }
