// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
)

// CheckDevices returns an error for the first device that a fault names and known does not accept. expected describes
// the names that it accepts.
func (s *Set) CheckDevices(known func(name string) bool, expected string) error {
	for _, d := range s.devices {
		if !known(d.Word) {
			d.Expected = expected
			return &d
		}
	}
	return nil
}

// on reports whether the fault concerns a device, which is named as the program has opened it.
func (f *Fault) on(device string) bool {
	return f.Device == "" || f.Device == device || strings.HasPrefix(device, f.Device+":")
}

// met has the devices that have had an injector. liveLock guards it.
var met = map[string]bool{}

// unmet returns a line for each fault of a set that concerns none of the devices that the process has had.
func (s *Set) unmet() (lines string) {
	liveLock.Lock()
	defer liveLock.Unlock()
faults:
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.Device == "" {
			if len(met) == 0 {
				lines += fmt.Sprintf("%v: never struck: the process has opened no device that takes faults\n", f)
			}
			continue
		}
		for device := range met {
			if f.on(device) {
				continue faults
			}
		}
		lines += fmt.Sprintf("%v: never struck: the process has not opened this device\n", f)
	}
	return lines
}

// finishUnmet logs the faults of the environment that no device of the process has had.
func finishUnmet() {
	set, err := FromEnvironment()
	if set == nil || err != nil { // opening a device has reported the error
		return
	}
	lines := set.unmet()
	if lines == "" {
		return
	}
	if log, err := ProcessLog(); err == nil {
		log.comment("faults of devices that were not opened:\n" + lines)
	}
}
