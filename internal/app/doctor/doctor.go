// SPDX-License-Identifier: Apache-2.0

// Package doctor finds problems of RDMA on a machine, and on the way to a peer: from facts, which other
// packages gather, to findings, each with why it matters and the commands that mend it. It asks no system
// and changes nothing.
//
//	hardware.go  modules, device files, control groups, limits
//	ports.go     links, GID tables, MTUs, flow control
//	software.go  Ramjet's own devices
//	container.go injected libraries, and a container's limits
//	peer.go      the way to a peer
//	log.go       which findings can be the cause of an error in a log
//	report.go    facts and findings as text
package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// Facts are the facts of a diagnosis.
type Facts struct {
	System *rdmasys.System `json:"system"`
	Soft   []Soft          `json:"software"`
	Named  *Named          `json:"environment,omitempty"` // nil: the environment names no device
	Listed *Listed         `json:"c_programs,omitempty"`  // nil: the environment lists no devices of C programs
	// CDevices are the devices that C programs see here, if the environment injects Ramjet's libraries.
	CDevices []CDevice      `json:"c_devices,omitempty"`
	Asked    *Asked         `json:"device,omitempty"` // nil: none was asked for
	Peer     *Peer          `json:"peer,omitempty"`   // nil: none was asked for
	Log      *explain.Found `json:"log,omitempty"`    // nil: no log was given, or nothing in it is known
}

// Soft is a kind of Ramjet's devices in software.
type Soft struct {
	Kind    string `json:"kind"`
	Text    string `json:"protocol"`
	Device  string `json:"device,omitempty"` // the device that was tried
	Works   bool   `json:"works"`
	Problem string `json:"problem,omitempty"` // why that could not be opened
	Needs   string `json:"needs,omitempty"`   // a missing requirement of this kind; it was not tried
	Detail  string `json:"detail,omitempty"`  // the device's own description
	Port    uint16 `json:"port,omitempty"`    // the UDP port that it needs
	Taken   bool   `json:"port_taken,omitempty"`
	Host    bool   `json:"host_only,omitempty"` // it reaches only processes of this host
}

// Named is the device that the environment names.
type Named struct {
	Variable string `json:"variable"`
	Device   string `json:"device"`
	Problem  string `json:"problem,omitempty"` // why it cannot be opened
}

// Asked is the device that a report is about.
type Asked struct {
	Name string `json:"name"` // as it was given
	// the device to open; empty: it is the kernel's, and listed with the others
	Device  string `json:"device,omitempty"`
	Problem string `json:"problem,omitempty"`
	Detail  string `json:"detail,omitempty"` // the device's own description
}

// Listed are the devices that the environment lists for C programs.
type Listed struct {
	Variable string            `json:"variable"`
	Names    map[string]string `json:"devices"`           // addresses, such as roce:192.0.2.7, by the programs' names
	Problem  string            `json:"problem,omitempty"` // of the list
}

// Peer holds the facts about the way to a peer.
type Peer struct {
	Addr    netip.Addr       `json:"address"`
	Problem string           `json:"problem,omitempty"` // there is no way
	Route   rdmasys.Route    `json:"route"`
	Best    []kinds.Choice   `json:"devices"`
	Not     []kinds.Choice   `json:"not,omitempty"`
	Path    rdmasys.PathTest `json:"path"`
	Service *Service         `json:"service,omitempty"`    // nil: the address is not known to be a service's
	Reply   *Reply           `json:"roce_reply,omitempty"` // nil: it was not asked
}

// Service is a service of Kubernetes whose own address a peer has.
type Service struct {
	Name string `json:"name"`
	From string `json:"from"` // the source of the name
}

// Reply is a peer's reply to a request for a connection over RoCEv2 at a port where no listener is expected.
type Reply struct {
	Device   string `json:"device"` // that asked
	Answered bool   `json:"answered"`
	Text     string `json:"text"` // the answer, or why there is none
}

// Level is how bad a finding is.
type Level string

// The levels.
const (
	Problem Level = "problem" // something does not work
	Note    Level = "note"    // it works, and could be better; or it may be meant so
)

// Finding is something that was found.
type Finding struct {
	Level   Level    `json:"level"`
	Subject string   `json:"subject"` // a device, a port, an interface, a file
	What    string   `json:"what"`    // is wrong
	Why     string   `json:"why"`     // it matters
	Mend    []string `json:"mend,omitempty"`
	Fits    bool     `json:"fits_log,omitempty"` // it can be the cause of the log's error
}

// Diagnose returns the findings of facts, problems first.
func Diagnose(f *Facts) []Finding {
	d := &diagnosis{facts: f, sys: f.System}
	d.proc()
	d.asked()
	d.environment()
	d.listed()
	d.modules()
	d.files()
	d.limits()
	d.injected()
	d.joined()
	d.container()
	for i := range d.sys.Devices {
		dev := &d.sys.Devices[i]
		for j := range dev.Ports {
			d.port(dev, &dev.Ports[j])
		}
	}
	d.filters()
	d.software()
	d.peer()
	d.fit()
	var sorted []Finding
	for _, level := range []Level{Problem, Note} {
		for _, found := range d.found {
			if found.Level == level {
				sorted = append(sorted, found)
			}
		}
	}
	return sorted
}

// Problems counts the findings that are problems.
func Problems(found []Finding) (n int) {
	for _, f := range found {
		if f.Level == Problem {
			n++
		}
	}
	return n
}

// diagnosis collects findings.
type diagnosis struct {
	facts *Facts
	sys   *rdmasys.System
	found []Finding
}

func (d *diagnosis) problem(subject, what, why string, mend ...string) {
	d.found = append(d.found, Finding{Level: Problem, Subject: subject, What: what, Why: why, Mend: mend})
}

func (d *diagnosis) note(subject, what, why string, mend ...string) {
	d.found = append(d.found, Finding{Level: Note, Subject: subject, What: what, Why: why, Mend: mend})
}

// proc checks that the kernel's files are there. Interfaces come from /sys, and their presence tells Linux from others.
func (d *diagnosis) proc() {
	if d.sys.Kernel != "" || len(d.sys.Interfaces) == 0 || d.sys.Interfaces[0].State == "" {
		return
	}
	d.problem("/proc", "it cannot be read here",
		"Limits, modules, control groups and the load of the machine were not looked at. demo, perf --loopback and stat need it.", "mount -t proc proc /proc")
}

// asked checks the device that the report is about.
func (d *diagnosis) asked() {
	if a := d.facts.Asked; a != nil && a.Problem != "" {
		d.problem(a.Device, "it cannot be opened: "+a.Problem, "Programs that name it do not start.",
			"ramjet devices    # what can be opened")
	}
}

// environment checks the device that the environment names.
func (d *diagnosis) environment() {
	if n := d.facts.Named; n != nil && n.Problem != "" {
		d.problem(n.Variable, fmt.Sprintf("%s cannot be opened: %s", n.Device, n.Problem),
			"Commands and programs for which no device is named open it.", "unset "+n.Variable,
			"ramjet devices    # what can be opened")
	}
}

// listed checks the devices that the environment lists for C programs.
func (d *diagnosis) listed() {
	l := d.facts.Listed
	if l == nil {
		return
	}
	if l.Problem != "" {
		d.problem(l.Variable, l.Problem, "C programs do not see such a device.", "unset "+l.Variable,
			"ramjet run --help    # how devices are named")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Names)) {
		if n := len(name); n > cdevices.MaxPortableName {
			d.problem(l.Variable, fmt.Sprintf("the name %s of %s has %d characters", name, l.Names[name], n),
				fmt.Sprintf("UCX keeps %d of them and does not find the device: Open MPI then says \"PML ucx cannot be selected\". Without a name of its own the device has a short one, such as roce0.", cdevices.MaxPortableName),
				fmt.Sprintf("export %s=%s", l.Variable, l.Names[name]))
		}
	}
}
