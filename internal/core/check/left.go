// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// maxRecord is how many bytes of a record are read.
const maxRecord = 64 << 20

// ReportLeft reports what programs in Go that have ended left, by their records in a folder, with the options that they
// had. It returns the status for a program that has not failed: 0 if none of them had findings.
func ReportLeft(dir, options string) (status int, err error) {
	o, err := ParseOptions(options)
	if err != nil {
		return 0, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		pid, _, _ := strings.Cut(f.Name(), ".")
		if _, err := os.Stat("/proc/" + pid); err == nil { // it has outlived the one that has started it
			continue
		}
		found, err := o.reportRecord(filepath.Join(dir, f.Name()), pid)
		if err != nil {
			return 0, err
		}
		if found {
			status = o.ExitCode
		}
	}
	return status, nil
}

// reportRecord reports what is in one record, and reports whether the program had findings.
func (o *Options) reportRecord(name, pid string) (found bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return false, err
	}
	left, found := leftIn(text)
	if len(left) == 0 || o.Off[Leak] {
		return found, nil
	}
	out := os.Stderr
	if o.Log != "" {
		if out, err = calllog.OpenFile(strings.ReplaceAll(o.Log, "%p", pid)); err != nil {
			return false, err
		}
		defer out.Close()
	}
	for _, f := range left {
		if _, err := out.WriteString(f.String()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// leftIn returns a finding for each device that a record has objects of, and whether there were others. What is not an
// entry is skipped: a program may end while it writes one.
func leftIn(text []byte) (left []*Finding, found bool) {
	objects := map[string][]*entry{}
	for line := range slices.Chunk(text, entrySize) {
		e := &entry{}
		line = bytes.Trim(line, " \n\x00")
		if len(line) == 0 || json.Unmarshal(line, e) != nil {
			continue
		}
		found = found || e.Findings
		if e.Name != "" {
			objects[e.Device] = append(objects[e.Device], e)
		}
	}
	for device, all := range inOrder(objects) {
		var names []string
		first := all[0]
		for _, e := range all {
			names = append(names, e.Name)
			if e.When.Before(first.When) {
				first = e
			}
		}
		slices.Sort(names)
		left = append(left, &Finding{Leak, fmt.Sprintf("%d of %s are left: %s. The first is %s.", len(names), device,
			strings.Join(names, ", "),
			first.Name), []Place{{"It was created", first.When, Stack{described: describe(first.Stack)}}}})
	}
	return left, found
}
