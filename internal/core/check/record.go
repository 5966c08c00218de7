// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
)

// RecordsVariable is the environment's variable that names a folder, in which a program in Go keeps what it would leave
// if it ended now: nothing of the checker's runs as it ends. Who has started the program reads it then.
const RecordsVariable = "RAMJET_CHECK_RECORDS"

// entrySize is how long an entry of a record is.
const entrySize = 2048

// record is such a file. It has entries of one length: the first says whether there were findings, and each other one
// is an object that exists, or blank. A nil record keeps nothing.
type record struct {
	mu   sync.Mutex
	file *os.File
	used int   // entries, with blank ones
	free []int // blank ones
}

// entry is an object in a record. The first entry has Findings alone.
type entry struct {
	Findings bool      `json:"findings,omitempty"`
	Device   string    `json:"device,omitempty"`
	Name     string    `json:"name,omitempty"`
	When     time.Time `json:"when,omitzero"`
	Stack    []Frame   `json:"stack,omitempty"`
}

// openRecord makes the record of this process; nil: nobody asks for one, or it cannot be written, and is not read then.
func openRecord() *record {
	dir := environ.Get(RecordsVariable)
	if dir == "" {
		return nil
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("%d.", os.Getpid()))
	if err != nil {
		return nil
	}
	return &record{file: f, used: 1}
}

// add keeps an object, and returns its entry, 0 for none.
func (r *record) add(e *entry) int {
	if r == nil {
		return 0
	}
	text, _ := json.Marshal(e)
	for len(text) >= entrySize && len(e.Stack) > 0 { // without the outermost functions
		e.Stack = e.Stack[:len(e.Stack)-1]
		text, _ = json.Marshal(e)
	}
	if len(text) >= entrySize {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.used
	if last := len(r.free) - 1; last >= 0 {
		n, r.free = r.free[last], r.free[:last]
	} else {
		r.used++
	}
	r.write(n, text)
	return n
}

// remove forgets an entry.
func (r *record) remove(n int) {
	if r == nil || n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(n, nil)
	r.free = append(r.free, n)
}

// found notes that there was a finding.
func (r *record) found() {
	if r == nil {
		return
	}
	text, _ := json.Marshal(&entry{Findings: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(0, text)
}

// write replaces an entry by a text and blanks. An error cannot be told: the record has less then.
func (r *record) write(n int, text []byte) {
	line := bytes.Repeat([]byte(" "), entrySize)
	copy(line, text)
	line[entrySize-1] = '\n'
	r.file.WriteAt(line, int64(n)*entrySize)
}

// keep has the record of the process keep an object of the device.
func (d *Device) keep(o *object) {
	if d.c.record != nil {
		o.entry = d.c.record.add(&entry{Device: d.name, Name: o.name(), When: o.made.When,
			Stack: o.made.Stack.frames()})
	}
}

// drop has the record forget an object.
func (d *Device) drop(o *object) {
	d.c.record.remove(o.entry)
	o.entry = 0
}
