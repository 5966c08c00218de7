// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
)

// Log receives a line for each strike, in the form of a text of faults. A nil Log receives nothing. It may be that of
// several devices.
type Log struct {
	mu        sync.Mutex
	w         io.Writer
	prefix    string
	seeds     map[uint64]bool
	ofProcess bool   // it is not one of the program's own
	file      string // of the process's log; empty: standard error
}

// Prefix begins each line on a standard error, which programs have other lines for.
const Prefix = "ramjet: fault: "

// LogVariable is the variable of the environment that names the file of the log; empty: standard error.
const LogVariable = "RAMJET_FAULT_LOG"

// NewLog makes a log that writes to w, a line at a time.
func NewLog(w io.Writer) *Log { return &Log{w: w, seeds: map[uint64]bool{}} }

var processLog struct {
	sync.Mutex
	log *Log
}

// ProcessLog returns the log of this process's devices: the file that the environment names, where %p stands for the
// process's id, or standard error. A file that exists gets more lines.
func ProcessLog() (*Log, error) {
	processLog.Lock()
	defer processLog.Unlock()
	if processLog.log != nil {
		return processLog.log, nil
	}
	l, err := openLog(logName(environ.Get(LogVariable), os.Getpid()))
	if err != nil {
		return nil, err
	}
	processLog.log = l
	return l, nil
}

// logName returns the name of a process's log by a value of [LogVariable].
func logName(value string, pid int) string { return strings.ReplaceAll(value, "%p", strconv.Itoa(pid)) }

// openLog opens the log of a process by its name; empty: standard error.
func openLog(name string) (*Log, error) {
	if name == "" {
		l := NewLog(os.Stderr)
		l.prefix, l.ofProcess = Prefix, true
		return l, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", LogVariable, err)
	}
	l := NewLog(f)
	l.ofProcess = true
	l.file, err = filepath.Abs(name)
	return l, err
}

// Variable is the variable of the environment with the faults of all devices.
const Variable = "RAMJET_FAULTS"

// FromEnvironment returns the faults that the environment names; nil: none. Programs with more rights than their user
// have none.
func FromEnvironment() (*Set, error) {
	text := environ.Get(Variable)
	if text == "" {
		return nil, nil
	}
	return ParseVariable(text)
}

// ParseVariable parses a value of [Variable]: a text, or @ and the name of a file.
func ParseVariable(text string) (*Set, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Variable, err)
		}
		text = string(b)
	}
	s, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return s, nil
}

// seed notes a seed, once.
func (l *Log) seed(n uint64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	known := l.seeds[n]
	l.seeds[n] = true
	l.mu.Unlock()
	if !known {
		l.write(fmt.Sprintf("seed %d\n", n))
	}
}

// line notes a strike.
func (l *Log) line(fault, comment string) { l.write(fault + "  # " + comment + "\n") }

// comment notes lines of text.
func (l *Log) comment(text string) {
	l.write("# " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n#   ") + "\n")
}

func (l *Log) write(s string) {
	if l == nil {
		return
	}
	if l.prefix != "" {
		s = l.prefix + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+l.prefix) + "\n"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, s) // its reader sees that it is cut off
}
