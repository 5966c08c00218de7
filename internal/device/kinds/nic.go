// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// NICVariable is the variable of the environment by which all devices in software are as strict as a NIC, if it is 1.
const NICVariable = "RAMJET_NIC"

// nic reports whether the options, or the environment, want a device as strict as a NIC.
func (o *Options) nic() (bool, error) {
	if o.NIC {
		return true, nil
	}
	switch v := os.Getenv(NICVariable); v {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %q: 1 has devices act as NICs, 0 or nothing does not", NICVariable, v)
	}
}

// actor is a device that can act as a NIC.
type actor interface {
	ActAsNIC() error
	IsNIC() bool
}

func actAsNIC(dev *verbs.Device) error {
	a, ok := driver.DeviceOf(dev).(actor)
	if !ok {
		return fmt.Errorf(
			"ramjet: %s: %w: only devices in software act as NICs on request; unset %s, and leave out --nic or WithNIC",
			dev.Name(), verbs.ErrNotSupported, NICVariable)
	}
	if err := a.ActAsNIC(); err != nil {
		return fmt.Errorf("ramjet: %s: %w", dev.Name(), err)
	}
	return nil
}

// ActsAsNIC reports whether a device is in software and as strict as a NIC.
func ActsAsNIC(dev *verbs.Device) bool {
	a, ok := driver.DeviceOf(dev).(actor)
	return ok && a.IsNIC()
}
