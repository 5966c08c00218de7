// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// fullWindow is the net.core.rmem_max that Ramjet's largest window of 1 MiB needs: the system
// counts its own overhead, and the device leaves a margin.
const fullWindow = 2 << 20

// software checks the requirements of Ramjet's own devices.
func (d *diagnosis) software() {
	for _, s := range d.facts.Soft {
		switch {
		case s.Works || s.Problem == "":
		case s.Taken:
			d.portTaken(s)
		default:
			d.problem(s.Kind, fmt.Sprintf("%s cannot be opened: %s", s.Device, s.Problem),
				"Devices of this kind work without rights and without hardware everywhere else.",
				"ramjet devices "+s.Device)
		}
	}
	p := d.sys.Parameters
	if p.RecvBufferMax >= 0 && p.RecvBufferMax < fullWindow &&
		d.has(func(s *Soft) bool { return s.Port == rdmasys.RoCEPort }) {
		d.note("net.core.rmem_max", fmt.Sprintf("sockets may have receive buffers of %s", units.Size(p.RecvBufferMax)),
			fmt.Sprintf("roce: has a window of half of that in flight, instead of 1 MiB, and is slower at large messages. %s are enough.", units.Size(fullWindow)),
			fmt.Sprintf("sysctl -w net.core.rmem_max=%d", 8<<20))
	}
	if p.PtraceScope > 0 && d.has(func(s *Soft) bool { return s.Host }) {
		d.note("kernel.yama.ptrace_scope", fmt.Sprintf("it is %d: processes may not copy from each other's memory",
			p.PtraceScope),
			"shm: then copies with the help of the target's process, unless the device allocated the memory. Programs with CAP_SYS_PTRACE are not concerned. Set to 0, any process of a user may also trace the user's others.",
			"sysctl -w kernel.yama.ptrace_scope=0")
	}
	if o := d.sys.Offloads; o != nil && (!o.GSO || !o.GRO) {
		d.note("UDP", fmt.Sprintf("the system has GSO: %v, GRO: %v", o.GSO, o.GRO),
			"roce: sends and receives datagrams one by one without them, and is several times slower at large messages.", "uname -r    # GSO came with Linux 4.18, GRO with 5.0")
	}
	if p.UserNamespaces == 0 || p.UserNSAllowed == 1 {
		d.note("user namespaces", "ordinary users may not make any",
			"Only tests need them: those that set up networks of their own are skipped. Devices work without.",
			"sysctl -w user.max_user_namespaces=63000", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	}
}

// has reports whether a kind of device is there that a setting concerns.
func (d *diagnosis) has(concerned func(*Soft) bool) bool {
	for i := range d.facts.Soft {
		if s := &d.facts.Soft[i]; s.Needs == "" && concerned(s) {
			return true
		}
	}
	return false
}

// portTaken names the holder of RoCEv2's port.
func (d *diagnosis) portTaken(s Soft) {
	what := s.Device + " cannot be opened: UDP port 4791 is in use"
	if d.sys.RXEHasPort() {
		mend := []string{"modprobe -r rdma_rxe    # to use roce:, until it is loaded again"}
		for i := range d.sys.Devices {
			if dev := &d.sys.Devices[i]; !dev.Hardware && !dev.IWARP() {
				mend = append([]string{"rdma link delete " + dev.Name}, mend...)
			}
		}
		d.note(s.Kind, what+" by the kernel's module rdma_rxe",
			"The module has the port on all addresses as long as it is loaded. One of the two can have it.", mend...)
		return
	}
	d.problem(s.Kind, what, "RoCEv2 has one port, and a socket of another program has it.",
		"ss -ulpn 'sport = :4791'    # whose it is")
}
