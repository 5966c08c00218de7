// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// CDevice is a device that C programs see.
type CDevice struct {
	Name   string `json:"name"`
	Device string `json:"device"`              // such as roce:192.0.2.7
	NetDev string `json:"interface,omitempty"` // the interface of its address
	MTU    int    `json:"mtu_bytes,omitempty"` // of the interface
	// Joins is the fabric that the device's adapter joins; nil: it joins none.
	Joins *JoinedFabric `json:"joins,omitempty"`
}

// JoinedFabric is a fabric that listens elsewhere for adapters.
type JoinedFabric struct {
	At      string   `json:"at"`                  // HOST:PORT
	Addrs   []string `json:"addresses,omitempty"` // the host's addresses now
	Problem string   `json:"problem,omitempty"`   // why an adapter cannot join; empty: one has joined
	Managed bool     `json:"managed"`             // a subnet manager has made its port active
}

// injected checks the libraries that the environment puts before the system's.
func (d *diagnosis) injected() {
	i := d.sys.Injected
	if i == nil {
		return
	}
	if len(i.Libraries) == 0 {
		d.problem(i.Folder, "there are no libraries in it",
			"The environment says that programs get Ramjet's libraries from there. They do not find them.",
			"ls "+i.Folder)
	}
	var old []string
	for _, l := range i.Libraries {
		switch {
		case l.Problem == "":
		case l.Needs != "" && i.Version == "":
			old = append(old, l.File)
		case l.Preloaded:
			d.problem(l.File, "it cannot be loaded: "+l.Problem,
				"The environment has each program load it before others. The loader of glibc warns and goes on, that of musl ends the program.", "unset LD_PRELOAD")
		default:
			d.problem(l.File, "it cannot be loaded: "+l.Problem, "Programs that need it do not start.",
				"/opt/ramjet/bin/ramjet doctor    # in an image with glibc 2.31 or newer: Debian 11, Ubuntu 20.04, RHEL 9")
		}
	}
	if len(old) > 0 {
		d.problem("C library", fmt.Sprintf("Ramjet's libraries need glibc, and this system has %s", libcText(i)),
			"C programs do not start with them. Go programs that have Ramjet linked in need none.",
			"# use an image with glibc 2.31 or newer: Debian 11, Ubuntu 20.04, RHEL 9")
	}
	if i.Sysfs == "" {
		return // they are for `ramjet run`
	}
	if !i.InPath {
		d.problem("LD_LIBRARY_PATH", fmt.Sprintf("%s is not in it: it is %q", i.Folder, i.Path),
			"Programs load the libraries of the system, which find no device. The image or a script has changed the variable.",
			"export LD_LIBRARY_PATH="+i.Folder+"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
	}
	if len(i.Described) == 0 {
		d.problem(i.Sysfs, "it describes no device",
			"UCX, Open MPI and others look into /sys/class/infiniband, for which this folder stands. It is written before the container starts.", "# start the container again; the log of the container runtime has what failed")
	}
}

func libcText(i *rdmasys.Injected) string {
	switch {
	case i.Version != "":
		return "glibc " + strings.TrimPrefix(i.Version, "GLIBC_")
	case strings.Contains(i.Libc, "musl"):
		return "musl"
	case i.Libc != "":
		return i.Libc
	}
	return "no C library"
}

// joined checks whether the fabrics answer that adapters join.
func (d *diagnosis) joined() {
	for _, c := range d.facts.CDevices {
		f := c.Joins
		switch {
		case f == nil:
		case f.Problem != "":
			d.problem(c.Name, fmt.Sprintf("it does not join the fabric at %s: %s", f.At, f.Problem),
				"Its port is down until the fabric answers, over UDP. Network policies and firewalls have to let that through.",
				"kubectl get pods -l app=fabric -o wide    # in Kubernetes: is it there, and at that address?",
				"ramjet fabric --star 1 --spare 32 --listen :7470    # elsewhere")
		case !f.Managed:
			d.problem(c.Name, fmt.Sprintf("the fabric at %s has no subnet manager", f.At),
				"The port has no LID until there is one, and sends nothing.",
				"# run the fabric without --no-manager, or OpenSM beside it")
		}
	}
}

// The limits of containers that are worth a note.
const (
	littleMemory    = 64 << 20
	fewProcesses    = 64
	littleSharedMem = 64 << 20 // the default of containers
)

// container checks a container's limits for a program.
func (d *diagnosis) container() {
	if d.sys.Container == "" {
		return
	}
	g := d.sys.Group
	if g.Memory >= 0 && g.Memory < littleMemory {
		d.note("memory", fmt.Sprintf("the control groups leave %s", units.Size(g.Memory)),
			"A program that takes more is killed (OOM). Registered memory and receive buffers count.",
			"# docker run --memory=…; Kubernetes: resources.limits.memory")
	}
	if g.Processes >= 0 && g.Processes < fewProcesses {
		d.note("processes", fmt.Sprintf("the control groups allow %d processes and threads", g.Processes),
			"Ramjet's devices have threads. A program that gets none ends.",
			"# docker run --pids-limit=…; Kubernetes: podPidsLimit of the kubelet")
	}
	if g.Processors >= 0 && g.Processors < 1 {
		d.note("processors", fmt.Sprintf("the control groups give %.3g of a processor", g.Processors),
			"Programs that poll use up their share, and then stand still until the next period. Peers see no acknowledgement meanwhile.", "# docker run --cpus=…; Kubernetes: resources.limits.cpu")
	}
	if m := d.sys.SharedMem; m >= 0 && m <= littleSharedMem {
		d.note("/dev/shm", fmt.Sprintf("it has %s", units.Size(m)),
			"MPI, UCX and NCCL share memory between the processes of a host there, and fail with SIGBUS when it is full. Ramjet does not use it.", "# docker run --shm-size=1g; Kubernetes: a volume emptyDir {medium: Memory} at /dev/shm")
	}
}

// inside writes the facts about a container, or an environment with Ramjet's libraries.
func (w *report) inside(f *Facts) {
	i := f.System.Injected
	if i == nil && f.System.Container == "" {
		return
	}
	fmt.Fprint(w, "\nThe environment of programs\n\n")
	if i != nil {
		var loaded, preloaded []string
		for _, l := range i.Libraries {
			name := strings.TrimPrefix(l.File, i.Folder+"/")
			if l.Preloaded {
				preloaded = append(preloaded, name)
			} else if l.Problem == "" {
				loaded = append(loaded, name)
			}
		}
		w.prose("  libraries   ", fmt.Sprintf("%s: %s. This system has %s", i.Folder,
			list(loaded, "none can be loaded", "can be loaded"), libcText(i)))
		w.prose("  preloaded   ", list(preloaded, "nothing", ""))
		if i.Sysfs != "" {
			w.prose("  sysfs       ", i.Sysfs+": "+list(i.Described, "no device", ""))
		}
	}
	for _, d := range f.CDevices {
		text := d.Name + " is " + d.Device
		if d.NetDev != "" {
			text += fmt.Sprintf(" on %s, MTU %d (path MTU %d)", d.NetDev, d.MTU, rdmasys.PathMTU(d.MTU))
		}
		if j := d.Joins; j != nil {
			text += fmt.Sprintf("; the fabric at %s (%s) %s", j.At, list(j.Addrs, "no address", ""), j.state())
		}
		w.prose("  C programs  ", text)
	}
	w.prose("  limits      ", limits(f.System))
}

// state says in a few words how the fabric is.
func (f *JoinedFabric) state() string {
	switch {
	case f.Problem != "":
		return "does not take it"
	case !f.Managed:
		return "answers, without a subnet manager"
	}
	return "answers"
}

// list writes names with their predicate do behind them, or without names the text none.
func list(names []string, none, do string) string {
	if len(names) == 0 {
		return none
	}
	return strings.TrimSpace(strings.Join(names, ", ") + " " + do)
}

// limits says how much programs may have.
func limits(s *rdmasys.System) string {
	size := func(n int64) string {
		if n < 0 {
			return "any"
		}
		return units.Size(n)
	}
	locked := "unknown"
	switch m := s.Memlock; {
	case m.Unlimited || m.Privileged:
		locked = "any"
	case m.Known:
		locked = units.Size(m.Bytes)
	}
	parts := []string{"memory " + size(s.Group.Memory), "locked memory " + locked}
	if n := s.Group.Processes; n >= 0 {
		parts = append(parts, fmt.Sprintf("processes and threads %d", n))
	} else {
		parts = append(parts, "processes and threads any")
	}
	if n := s.Group.Processors; n >= 0 {
		parts = append(parts, fmt.Sprintf("processors %.3g", n))
	} else {
		parts = append(parts, "processors any")
	}
	if s.SharedMem >= 0 {
		parts = append(parts, "/dev/shm "+units.Size(s.SharedMem))
	}
	return strings.Join(parts, ", ")
}
