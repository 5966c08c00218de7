// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// SysfsVariable names the folder that stands for /sys and /dev.
const SysfsVariable = "RAMJET_SYSFS"

// RDMATool is the path of this command in that folder, under the name of iproute2's rdma: programs
// run it to list their devices.
const RDMATool = "bin/rdma"

// describe returns the sysfs description of the devices of an environment. noWait: adapters that join a fabric
// elsewhere are described as they are before they have joined.
func describe(env []string, noWait bool) (*cdevices.Sysfs, error) {
	listed, err := cdevices.List(lookup(env, cdevices.Environment))
	if err != nil {
		return nil, err
	}
	s := cdevices.NewSysfs()
	for i, d := range listed {
		dev, err := kinds.Open(d.Address, &kinds.Options{NoWait: noWait})
		if err != nil {
			continue // the program reports it if it matters
		}
		err = s.Add(i, d, dev)
		dev.Close()
		if err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err == nil {
		s.Links[RDMATool] = self
	}
	return s, nil
}

// lookup finds the last value of a variable, which is the effective one.
func lookup(env []string, name string) (value string, set bool) {
	for _, e := range env {
		if v, is := strings.CutPrefix(e, name+"="); is {
			value, set = v, true
		}
	}
	return value, set
}

// before returns a variable of paths with one more in front.
func before(env []string, name, path string) string {
	if old, _ := lookup(env, name); old != "" {
		path += ":" + old
	}
	return name + "=" + path
}
