// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"io"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// FaultsVariable is the variable of the environment with the faults of all devices, and FaultLogVariable the one that
// names the file in which faults that strike are logged.
const (
	FaultsVariable   = faults.Variable
	FaultLogVariable = faults.LogVariable
)

// FaultRecordsVariable is the variable of the environment that names a folder, in which programs in Go keep how often
// faults have struck, for [FinishFaultRecords].
const FaultRecordsVariable = faults.RecordsVariable

// FinishFaultRecords says how often the faults of programs in Go that have ended have struck, by their records in a
// folder. text and log are the values of [FaultsVariable] and [FaultLogVariable] that they had, pid the process that
// was started.
func FinishFaultRecords(dir, text, log string, pid int) error {
	return faults.FinishRecords(dir, text, log, pid)
}

// CheckFaults returns the error in a text of faults.
func CheckFaults(text string) error {
	_, err := parseFaults(text)
	return err
}

// parseFaults parses a text of faults, and looks at the devices that it names.
func parseFaults(text string) (*faults.Set, error) {
	set, err := faults.Parse(text)
	if err != nil {
		return nil, err
	}
	return set, checkDevices(set)
}

// checkDevices returns an error if a fault names neither a device nor a kind.
func checkDevices(set *faults.Set) error {
	return set.CheckDevices(func(name string) bool {
		kind, _, _ := strings.Cut(name, ":")
		_, err := Find(kind)
		return err == nil
	}, "a device, such as roce:192.0.2.7, or a kind: "+strings.Join(Names(), ", "))
}

// HasFaults reports whether a text without errors has a fault, and not only comments.
func HasFaults(text string) bool {
	set, err := faults.Parse(text)
	return err == nil && len(set.Faults) > 0
}

// FaultNames returns the words that faults begin with.
func FaultNames() []string { return faults.Names() }

// faults returns the faults that the options, or the environment, have; nil: none.
func (o *Options) faults() (*faults.Set, error) {
	if o.Faults == "" {
		s, err := faults.FromEnvironment()
		if s != nil && err == nil {
			if err = checkDevices(s); err != nil {
				err = fmt.Errorf("%s: %w", FaultsVariable, err)
			}
		}
		return s, err
	}
	s, err := parseFaults(o.Faults)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return s, nil
}

// SetFaults replaces the faults of an open device; an empty text ends them. log receives a line for each fault that
// strikes; nil: as before.
func SetFaults(dev *verbs.Device, text string, log io.Writer) error {
	s, err := parseFaults(text)
	if err != nil {
		return fmt.Errorf("ramjet: faults: %w", err)
	}
	return setFaults(dev, s, log)
}

func setFaults(dev *verbs.Device, s *faults.Set, to io.Writer) error {
	t, ok := driver.DeviceOf(dev).(faults.Target)
	if !ok {
		return fmt.Errorf("ramjet: %s: %w: faults are injected into devices in software only", dev.Name(),
			verbs.ErrNotSupported)
	}
	var log *faults.Log
	if to != nil {
		log = faults.NewLog(to)
	}
	if err := s.Set(t, dev.Name(), log); err != nil {
		return fmt.Errorf("ramjet: %w", err)
	}
	return nil
}

// FinishFaults says how often the faults of this process's devices have struck: the process ends.
func FinishFaults() { faults.FinishAll() }
