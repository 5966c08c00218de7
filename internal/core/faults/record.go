// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
)

// RecordsVariable is the variable of the environment that names a folder, in which a program in Go keeps how often its
// faults have struck: nothing of this package runs as such a program ends. The process that has started the program
// reads the folder then.
const RecordsVariable = "RAMJET_FAULT_RECORDS"

// A record is a file that the program has mapped: a header, a tally of each fault, and a text that says which faults
// they are.
type recordHeader struct {
	finished uint64 // 1: the summary has been logged
	faults   uint64 // how many tallies follow
}

const (
	headerSize = int(unsafe.Sizeof(recordHeader{}))
	tallySize  = int(unsafe.Sizeof(tally{}))
	maxRecord  = 1 << 20 // bytes of a record that is read
)

// recordText is the text of a record.
type recordText struct {
	Device string
	Log    string   // the file of the log; empty: standard error
	Faults []string // in the order of the tallies
	Past   []Result `json:",omitempty"` // of faults that had ended
}

// keep moves the tallies into a record, if the environment asks for records. A record that cannot be written is not
// read either.
func (in *Injector) keep() {
	dir := environ.Get(RecordsVariable)
	if dir == "" || in.log == nil || !in.log.ofProcess {
		return
	}
	text := recordText{Device: in.device, Log: in.log.file, Past: in.past}
	for _, s := range in.faults {
		text.Faults = append(text.Faults, s.Fault.String())
	}
	end, err := json.Marshal(text)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(dir, strconv.Itoa(os.Getpid())+".")
	if err != nil {
		return
	}
	defer f.Close()
	size := headerSize + len(in.faults)*tallySize
	if _, err := f.WriteAt(end, int64(size)); err != nil {
		return
	}
	mem, err := mapRecord(f, size)
	if err != nil {
		return
	}
	in.record = (*recordHeader)(unsafe.Pointer(&mem[0]))
	in.record.faults = uint64(len(in.faults))
	for i, s := range in.faults {
		kept := (*tally)(unsafe.Pointer(&mem[headerSize+i*tallySize]))
		*kept = *s.tally
		s.tally = kept
	}
}

// FinishRecords logs the summaries that programs in Go have not logged before they ended, by their records in a folder.
// faults is the text that they had, log the value of [LogVariable], and pid the process that was started: they are for
// faults of devices that no process has opened.
func FinishRecords(dir, faults, log string, pid int) error {
	set, err := ParseVariable(faults)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		owner, _, _ := strings.Cut(f.Name(), ".")
		if _, err := os.Stat("/proc/" + owner); err == nil && owner != strconv.Itoa(pid) { // it still runs
			continue
		}
		if err := finishRecord(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	lines := set.unmet()
	if lines == "" {
		return nil
	}
	l, err := openLog(logName(log, pid))
	if err != nil {
		return err
	}
	l.comment("faults of devices that were not opened:\n" + lines)
	return nil
}

// finishRecord logs the summary of one record, and notes that its device was opened.
func finishRecord(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	in, finished, log, err := readRecord(b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	liveLock.Lock()
	met[in.device] = true
	liveLock.Unlock()
	if finished {
		return nil
	}
	if in.log, err = openLog(log); err != nil {
		return err
	}
	in.logSummary(in.Results())
	return nil
}

// readRecord returns the injector that a record is of, and the file of its log.
func readRecord(b []byte) (in *Injector, finished bool, log string, err error) {
	damaged := errors.New("this is no record of faults")
	if len(b) < headerSize || len(b) > maxRecord {
		return nil, false, "", damaged
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	h := recordHeader{finished: word(0), faults: word(8)}
	if h.faults > uint64((len(b)-headerSize)/tallySize) {
		return nil, false, "", damaged
	}
	var text recordText
	end := headerSize + int(h.faults)*tallySize
	if err := json.Unmarshal(b[end:], &text); err != nil || uint64(len(text.Faults)) != h.faults {
		return nil, false, "", damaged
	}
	in = &Injector{device: text.Device, past: text.Past}
	for i, line := range text.Faults {
		set, err := Parse(line)
		if err != nil || len(set.Faults) != 1 {
			return nil, false, "", damaged
		}
		at := headerSize + i*tallySize
		in.faults = append(in.faults, &state{Fault: set.Faults[0],
			tally: &tally{word(at), word(at + 8), word(at + 16)}})
	}
	return in, h.finished != 0, text.Log, nil
}
