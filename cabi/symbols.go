// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
)

const (
	maxModules = 64       // as many files are remembered
	maxDebug   = 64 << 20 // bytes of a file's debugging information: with more its lines are not looked up
)

// modules are the program's file and its libraries, read when a report first names them.
var modules struct {
	mu  sync.Mutex
	all map[string]*module
}

// module is an ELF file.
type module struct {
	loads     []elf.ProgHeader
	functions []elf.Symbol // by address
	debug     *dwarf.Data  // nil: it has none
}

// place is where a module is mapped.
type place struct {
	start, end, offset uint64
	path               string
}

// describe returns the functions and lines of return addresses, without those of Ramjet's libraries.
func describe(pcs []uintptr) (frames []check.Frame) {
	modules.mu.Lock()
	defer modules.mu.Unlock()
	places, own := mappedFiles(), ""
	self := uint64(textAddress())
	for _, p := range places {
		if p.start <= self && self < p.end {
			own = filepath.Dir(p.path)
		}
	}
	for _, pc := range pcs {
		at := uint64(pc) - 1 // in the call, and not behind it
		i := slices.IndexFunc(places, func(p place) bool { return p.start <= at && at < p.end })
		switch {
		case i < 0:
			frames = append(frames, check.Frame{Function: fmt.Sprintf("%#x", pc)})
		case filepath.Dir(places[i].path) == own && ownLibrary(places[i].path):
		default:
			frames = append(frames, moduleOf(places[i].path).frame(at-places[i].start+places[i].offset, places[i].path))
		}
	}
	return frames
}

// ownLibrary reports whether a file of the libraries' folder is one of them: a program may be there, too.
func ownLibrary(path string) bool { return strings.Contains(filepath.Base(path), ".so") }

// mappedFiles returns where files are mapped that can be run.
func mappedFiles() (places []place) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		from, to, mode, ok := mapping(line)
		fields := bytes.Fields(line)
		if !ok || len(fields) < 6 || fields[5][0] != '/' || mode[2] != 'x' {
			continue
		}
		path := string(bytes.TrimSuffix(line[bytes.IndexByte(line, '/'):], []byte("\n")))
		places = append(places, place{from, to, hex(fields[2]), path})
	}
	return places
}

// moduleOf reads a file. Of one that cannot be read nothing is known.
func moduleOf(path string) *module {
	if m := modules.all[path]; m != nil {
		return m
	}
	if modules.all == nil || len(modules.all) >= maxModules {
		modules.all = map[string]*module{}
	}
	m := &module{}
	modules.all[path] = m
	f, err := elf.Open(path)
	if err != nil {
		return m
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	all, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	for _, s := range append(all, dynamic...) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value != 0 {
			m.functions = append(m.functions, s)
		}
	}
	slices.SortStableFunc(m.functions, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	if s := f.Section(".debug_info"); s != nil && s.Size <= maxDebug {
		m.debug, _ = f.DWARF()
	}
	return m
}

// frame describes an offset in the file.
func (m *module) frame(offset uint64, path string) check.Frame {
	f := check.Frame{Function: "??", File: fmt.Sprintf("%s+%#x", path, offset)}
	i := slices.IndexFunc(m.loads, func(p elf.ProgHeader) bool { return p.Off <= offset && offset-p.Off < p.Filesz })
	if i < 0 {
		return f
	}
	at := offset - m.loads[i].Off + m.loads[i].Vaddr
	n, _ := slices.BinarySearchFunc(m.functions, at+1, func(s elf.Symbol, v uint64) int { return cmp.Compare(s.Value, v) })
	if n > 0 {
		if s := m.functions[n-1]; s.Size == 0 || at-s.Value < s.Size {
			f.Function, _, _ = strings.Cut(s.Name, "@")
		}
	}
	if file, line := m.line(at); line != 0 {
		f.File, f.Line = file, line
	}
	return f
}

// line returns the line of an address, 0 if it is not known.
func (m *module) line(at uint64) (file string, line int) {
	if m.debug == nil {
		return "", 0
	}
	unit, err := m.debug.Reader().SeekPC(at)
	if err != nil {
		return "", 0
	}
	lines, err := m.debug.LineReader(unit)
	if err != nil || lines == nil {
		return "", 0
	}
	var e dwarf.LineEntry
	if lines.SeekPC(at, &e) != nil || e.File == nil {
		return "", 0
	}
	return e.File.Name, e.Line
}
