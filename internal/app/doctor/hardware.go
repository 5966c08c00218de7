// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
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
	if d.lacks("ib_uverbs") {
		d.problem("ib_uverbs", "the module is not loaded",
			"Programs reach devices through it, by /dev/infiniband/uverbs0.", "modprobe ib_uverbs")
	}
	if d.lacks("rdma_ucm") {
		d.problem("rdma_ucm", "the module is not loaded",
			"Programs make connections through it, by /dev/infiniband/rdma_cm.", "modprobe rdma_ucm")
	}
}

// lacks reports whether a module is not loaded by which programs use the devices that are here. A container loads
// none.
func (d *diagnosis) lacks(module string) bool {
	return len(d.sys.Devices) > 0 && d.sys.Container == "" && d.sys.Modules.Known && !d.sys.Modules.Has(module)
}

// hasDevice reports whether an interface has an RDMA device.
func (d *diagnosis) hasDevice(netdev string) bool {
	return slices.ContainsFunc(d.sys.Devices, func(v rdmasys.Device) bool {
		return slices.ContainsFunc(v.Ports, func(p rdmasys.Port) bool { return p.NetDev == netdev })
	})
}

// files checks that this process can open the devices' files, except files of a module that is not loaded.
func (d *diagnosis) files() {
	if len(d.sys.Devices) == 0 {
		return
	}
	var missing, forbidden, barred []string
	need := func(name string) {
		file := "/dev/infiniband/" + name
		switch f := d.sys.File(name); {
		case f == nil:
			missing = append(missing, file)
		case errors.Is(f.Problem, syscall.EPERM):
			barred = append(barred, file)
		case errors.Is(f.Problem, fs.ErrPermission): // EACCES
			forbidden = append(forbidden, file)
		case f.Problem != nil:
			d.problem(file, "it cannot be opened: "+f.Why(),
				"The device may be gone, or its driver is being loaded again.", "dmesg | tail",
				"modprobe -a ib_uverbs rdma_ucm")
		}
	}
	if !d.lacks("ib_uverbs") {
		for i := range d.sys.Devices {
			if v := d.sys.Devices[i].Verbs; v != "" {
				need(v)
			} else if d.sys.Container == "" {
				d.problem(d.sys.Devices[i].Name, "the kernel offers programs no file for it",
					"Programs reach devices by /dev/infiniband/uverbs0 and its like.", "modprobe ib_uverbs")
			}
		}
	}
	if !d.lacks("rdma_ucm") {
		need(rdmasys.ConnectFile)
	}
	d.missing(missing)
	d.forbidden(forbidden)
	d.barred(barred)
}

// missing tells of device files that do not exist.
func (d *diagnosis) missing(files []string) {
	if len(files) == 0 {
		return
	}
	what := "does not exist"
	if len(files) > 1 {
		what = "do not exist"
	}
	const why = "The kernel has the devices, but programs reach them by these files only."
	if d.sys.Container != "" {
		d.problem(strings.Join(files, ", "), what+" in this container", why,
			"docker run --device=/dev/infiniband --ulimit memlock=-1 --network=host …",
			"# Kubernetes: a device plugin for RDMA, and its resource in the pod")
		return
	}
	d.problem(strings.Join(files, ", "), what, why, "modprobe -a ib_uverbs rdma_ucm",
		"udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc")
}

// forbidden tells of device files whose modes keep this user out.
func (d *diagnosis) forbidden(files []string) {
	if len(files) == 0 {
		return
	}
	var modes []string
	for _, f := range files {
		if m := d.sys.File(path.Base(f)).Mode.Perm().String(); !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	what := "this user may not open it: mode "
	if len(files) > 1 {
		what = "this user may not open them: mode "
	}
	d.problem(strings.Join(files, ", "), what+strings.Join(modes, ", "),
		"Programs that use the device open it for reading and writing.",
		"chmod 666 "+strings.Join(files, " "),
		`echo 'KERNEL=="uverbs*|rdma_cm", MODE="0666"' >/etc/udev/rules.d/90-rdma.rules`)
}

// barred tells of device files that the control group keeps this process from.
func (d *diagnosis) barred(files []string) {
	if len(files) == 0 {
		return
	}
	mend := []string{"docker run --device=/dev/infiniband …"}
	for _, f := range files {
		mend = append(mend, "systemctl set-property UNIT DeviceAllow='"+f+" rw'    # of a service")
	}
	what := "the control group of this process does not allow the device"
	if len(files) > 1 {
		what += "s"
	}
	d.problem(strings.Join(files, ", "), what,
		"The file is there, but the container was started without the right to it.", mend...)
}

// enoughMemlock is the limit that small programs need for their queues and buffers.
const enoughMemlock = 64 << 20

// limits checks how much memory may be pinned, and the limits of control groups on devices.
func (d *diagnosis) limits() {
	if len(d.sys.Devices) == 0 {
		return
	}
	if m := d.sys.Memlock; m.Known && !m.Unlimited && !m.Privileged {
		say, why := d.note, "Registering more than that with a device of the kernel fails with ENOMEM."
		if m.Bytes < enoughMemlock {
			say, why = d.problem,
				"Memory of a NIC is pinned: registering more than that, queues included, fails with ENOMEM."
		}
		mend := []string{"sudo prlimit --memlock=unlimited --pid $$    # of this shell",
			"echo '* - memlock unlimited' >/etc/security/limits.d/rdma.conf    # for later logins",
			"systemctl edit UNIT    # [Service] LimitMEMLOCK=infinity"}
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
