// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// modules looks for NICs whose RDMA module is not loaded, and for modules that programs need.
func (d *diagnosis) modules() {
	for i := range d.sys.Interfaces {
		n := &d.sys.Interfaces[i]
		module, sure := rdmasys.ModuleOf(n.Driver)
		if module == "" || d.sys.Modules.Has(module) || !d.sys.Modules.Known || d.hasDevice(n.Name) {
			continue
		}
		say := d.note
		if sure {
			say = d.problem
		}
		mend := []string{"modprobe " + module}
		if !d.sys.Modules.Available[module] {
			mend = append([]string{"apt install linux-modules-extra-$(uname -r)    # or the vendor's drivers"}, mend...)
		}
		say(n.Name, fmt.Sprintf("the NIC's driver is %s, and its RDMA module %s is not loaded", n.Driver, module),
			"Without it the NIC has no RDMA device.", mend...)
	}
	if len(d.sys.Devices) == 0 || d.sys.Container != "" || !d.sys.Modules.Known {
		return
	}
	if !d.sys.Modules.Has("ib_uverbs") {
		d.problem("ib_uverbs", "the module is not loaded", "Programs reach devices through it, by /dev/infiniband/uverbs0.", "modprobe ib_uverbs")
	}
	if !d.sys.Modules.Has("rdma_ucm") {
		d.problem("rdma_ucm", "the module is not loaded", "Programs make connections through it, by /dev/infiniband/rdma_cm.", "modprobe rdma_ucm")
	}
}

// hasDevice reports whether an interface has an RDMA device.
func (d *diagnosis) hasDevice(netdev string) bool {
	return slices.ContainsFunc(d.sys.Devices, func(v rdmasys.Device) bool {
		return slices.ContainsFunc(v.Ports, func(p rdmasys.Port) bool { return p.NetDev == netdev })
	})
}

// files checks that this process can open the devices' files.
func (d *diagnosis) files() {
	if len(d.sys.Devices) == 0 {
		return
	}
	var missing []string
	need := func(name string) {
		at := slices.IndexFunc(d.sys.Files, func(f rdmasys.File) bool { return f.Name == name })
		switch {
		case at < 0:
			missing = append(missing, "/dev/infiniband/"+name)
		case d.sys.Files[at].Problem != nil:
			d.refused(&d.sys.Files[at])
		}
	}
	for i := range d.sys.Devices {
		if v := d.sys.Devices[i].Verbs; v != "" {
			need(v)
		} else if d.sys.Container == "" {
			d.problem(d.sys.Devices[i].Name, "the kernel offers programs no file for it", "Programs reach devices by /dev/infiniband/uverbs0 and its like.", "modprobe ib_uverbs")
		}
	}
	need("rdma_cm")
	if len(missing) == 0 {
		return
	}
	subject, what := strings.Join(missing, ", "), "does not exist"
	if len(missing) > 1 {
		what = "do not exist"
	}
	const why = "The kernel has the devices, but programs reach them by these files only."
	if d.sys.Container != "" {
		d.problem(subject, what+" in this container", why, "docker run --device=/dev/infiniband --ulimit memlock=-1 --network=host …",
			"# Kubernetes: a device plugin for RDMA, and its resource in the pod")
		return
	}
	d.problem(subject, what, why, "modprobe -a ib_uverbs rdma_ucm", "udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc")
}

// refused says why a device file cannot be opened.
func (d *diagnosis) refused(f *rdmasys.File) {
	file := "/dev/infiniband/" + f.Name
	switch {
	case errors.Is(f.Problem, fs.ErrPermission) && !errors.Is(f.Problem, syscall.EPERM): // EACCES
		d.problem(file, fmt.Sprintf("this user may not open it: its mode is %v", f.Mode.Perm()), "Programs that use the device open it for reading and writing.",
			"chmod 666 "+file, `echo 'KERNEL=="uverbs*|rdma_cm", MODE="0666"' >/etc/udev/rules.d/90-rdma.rules`)
	case errors.Is(f.Problem, syscall.EPERM):
		d.problem(file, "the control group of this process does not allow the device", "The file is there, but the container was started without the right to it.",
			"docker run --device="+file+" …", "systemctl set-property UNIT DeviceAllow='"+file+" rw'    # of a service")
	default:
		d.problem(file, "it cannot be opened: "+f.Problem.Error(), "The device may be gone, or its driver is being loaded again.", "dmesg | tail", "modprobe -a ib_uverbs rdma_ucm")
	}
}

// enoughMemlock is what small programs need for their queues and buffers.
const enoughMemlock = 64 << 20

// limits checks how much memory may be pinned, and what control groups leave of the devices.
func (d *diagnosis) limits() {
	if len(d.sys.Devices) == 0 {
		return
	}
	if m := d.sys.Memlock; m.Known && !m.Unlimited && !m.Privileged {
		say, why := d.note, "Registering more than that with a device of the kernel fails with ENOMEM."
		if m.Bytes < enoughMemlock {
			say, why = d.problem, "Memory of a NIC is pinned: registering more than that, queues included, fails with ENOMEM."
		}
		mend := []string{"ulimit -l unlimited", "echo '* - memlock unlimited' >/etc/security/limits.d/rdma.conf    # later logins", "systemctl edit UNIT    # [Service] LimitMEMLOCK=infinity"}
		if d.sys.Container != "" {
			mend = []string{"docker run --ulimit memlock=-1 …"}
		}
		say("memlock", fmt.Sprintf("this process may pin %s", units.Size(m.Bytes)), why, mend...)
	}
	for _, l := range d.sys.Limits {
		if d.sys.Device(l.Device) == nil {
			continue
		}
		const why = "The control group of this process, or one above it, limits what programs make of a device."
		mend := fmt.Sprintf("echo '%s hca_handle=max hca_object=max' >%s", l.Device, l.File)
		switch {
		case l.Handles == 0 || l.Objects == 0:
			d.problem(l.Device, fmt.Sprintf("%s allows no use of it: %s", l.File, limitText(l)), why, mend)
		case l.Objects >= 0 && l.Objects < 1000:
			d.note(l.Device, fmt.Sprintf("%s allows little use of it: %s", l.File, limitText(l)), why, mend)
		}
	}
}

func limitText(l rdmasys.RDMALimit) string {
	n := func(v int64) string {
		if v < 0 {
			return "max"
		}
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("hca_handle=%s hca_object=%s", n(l.Handles), n(l.Objects))
}
