// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// FaultRequest asks a process for the faults of its devices, or replaces them.
type FaultRequest struct {
	Set    bool   // replaces them; else they are only shown
	Device string // the name or the kind of a device; empty: all
	Text   string // of the faults; empty: there are none any more
}

const (
	setFaults  = "set"
	showFaults = "show"
	faultsDone = "done"
	faultsBad  = "failed"
	// maxFaultReply bounds a reply, in bytes.
	maxFaultReply = 4 << 20
)

// Write writes the request. Its reader reads to the end.
func (r *FaultRequest) Write(w io.Writer) error {
	what := showFaults
	if r.Set {
		what = setFaults
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n%s", what, r.Device, r.Text)
	return err
}

// ReadFaultRequest reads a request to the end.
func ReadFaultRequest(from io.Reader) (*FaultRequest, error) {
	b, err := io.ReadAll(io.LimitReader(from, faults.MaxText+1024))
	if err != nil {
		return nil, err
	}
	what, rest, ok := strings.Cut(string(b), "\n")
	device, text, more := strings.Cut(rest, "\n")
	if !ok || !more || what != setFaults && what != showFaults {
		return nil, errors.New("no request for faults")
	}
	return &FaultRequest{Set: what == setFaults, Device: device, Text: text}, nil
}

// DeviceFaults are the faults of a device.
type DeviceFaults struct {
	Name   string          `json:"name"`
	Faults []faults.Result `json:"faults"`
}

// Answer carries out the request in this process, and writes the reply.
func (r *FaultRequest) Answer(to io.Writer) error {
	what, text := faultsDone, []byte(nil)
	all, err := r.carryOut()
	if err == nil {
		text, err = json.Marshal(all)
	}
	if err != nil {
		what, text = faultsBad, []byte(err.Error())
	}
	_, err = fmt.Fprintf(to, "%s\n%s", what, text)
	return err
}

// ReadFaultReply reads Answer's reply: the faults of each device.
func ReadFaultReply(from io.Reader) ([]DeviceFaults, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxFaultReply))
	if err != nil {
		return nil, err
	}
	what, text, ok := bytes.Cut(b, []byte("\n"))
	switch {
	case ok && string(what) == faultsDone:
		return readDeviceFaults(text)
	case ok && string(what) == faultsBad:
		return nil, errors.New(printableLines(string(text)))
	}
	return nil, ErrTruncated
}

// readDeviceFaults decodes the faults of devices. Their texts can be shown on a terminal.
func readDeviceFaults(text []byte) (all []DeviceFaults, err error) {
	if json.Unmarshal(text, &all) != nil {
		return nil, ErrTruncated
	}
	for i := range all {
		d := &all[i]
		d.Name = Printable(d.Name)
		for j := range d.Faults {
			f := &d.Faults[j]
			f.Fault, f.Unit, f.Missed = Printable(f.Fault), Printable(f.Unit), Printable(f.Missed)
		}
	}
	return all, nil
}

// printableLines is Printable for several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (r *FaultRequest) carryOut() ([]DeviceFaults, error) {
	set, err := faults.Parse(r.Text)
	if err != nil {
		return nil, err
	}
	all := []DeviceFaults{}
	for _, d := range devices() {
		name := d.dev.Name()
		if r.Device != "" && r.Device != name && !strings.HasPrefix(name, r.Device+":") {
			continue
		}
		t, ok := driver.DeviceOf(d.dev).(faults.Target)
		if r.Set && !ok {
			return nil, fmt.Errorf("%s: faults are injected into devices in software only%s", name, already(all))
		}
		if r.Set {
			if err := set.Set(t, name, nil); err != nil {
				return nil, fmt.Errorf("%w%s", err, already(all))
			}
		}
		of := DeviceFaults{Name: name, Faults: []faults.Result{}}
		if ok && t.Faults() != nil {
			of.Faults = t.Faults().Results()
		}
		all = append(all, of)
	}
	if len(all) == 0 && r.Device != "" {
		return nil, fmt.Errorf("the process has no device %s: `ramjet stat` shows those that it has", r.Device)
	}
	return all, nil
}

// already tells that some devices have taken the faults before one did not.
func already(done []DeviceFaults) string {
	if len(done) == 0 {
		return ""
	}
	return ". Other devices of the process have the faults by now"
}
