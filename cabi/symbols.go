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

// place is the range of addresses at which a module is mapped.
type place struct {
	start, end, offset uint64
	path               string
}

// describe returns the functions and lines of return addresses, without addresses in Ramjet's libraries.
func describe(pcs []uintptr) (frames []check.Frame) {
	modules.mu.Lock()
	defer modules.mu.Unlock()
	places := mappedFiles()
	own := ownFolder(places)
	for _, pc := range pcs {
		at := uint64(pc) - 1 // in the call, and not behind it
		i := slices.IndexFunc(places, func(p place) bool { return p.start <= at && at < p.end })
		switch {
		case i < 0:
			frames = append(frames, check.Frame{Function: fmt.Sprintf("%#x", pc)})
		case places[i].libraryIn(own):
		default:
			frames = append(frames, moduleOf(places[i].path).frames(at-places[i].start+places[i].offset,
				places[i].path)...)
		}
	}
	return programs(frames)
}

// innermost returns the file of the first of the return addresses that is not in one of these libraries.
func innermost(pcs []uintptr) string {
	places := mappedFiles()
	own := ownFolder(places)
	for _, pc := range pcs {
		at := uint64(pc) - 1
		i := slices.IndexFunc(places, func(p place) bool { return p.start <= at && at < p.end })
		if i >= 0 && !places[i].libraryIn(own) {
			return places[i].path
		}
	}
	return ""
}

// ownFolder returns the folder that these libraries are in.
func ownFolder(places []place) string {
	self := uint64(textAddress())
	for _, p := range places {
		if p.start <= self && self < p.end {
			return filepath.Dir(p.path)
		}
	}
	return ""
}

// programs leaves out the functions of the interface's headers, and functions below main or a thread's first.
func programs(frames []check.Frame) []check.Frame {
	frames = slices.DeleteFunc(frames, func(f check.Frame) bool {
		return strings.HasSuffix(f.File, "/infiniband/verbs.h") || strings.HasSuffix(f.File, "/rdma/rdma_verbs.h")
	})
	if i := slices.IndexFunc(frames, func(f check.Frame) bool { return f.Function == "main" }); i >= 0 {
		return frames[:i+1]
	}
	const start = 3 // frames below main, or a thread's first function: the C library's, and _start
	for i := max(1, len(frames)-start); i < len(frames); i++ {
		if strings.Contains(frames[i].File, "/libc.so.6+") {
			return frames[:i]
		}
	}
	return frames
}

// libraryIn reports whether a file is one of the libraries in a folder: a program may be there, too.
func (p place) libraryIn(folder string) bool {
	return filepath.Dir(p.path) == folder && strings.Contains(filepath.Base(p.path), ".so")
}

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

// moduleOf reads a file. If it cannot be read, the module is empty.
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

// frames describes an offset in the file: a function, and functions inlined into it, the innermost first.
func (m *module) frames(offset uint64, path string) []check.Frame {
	f := check.Frame{Function: "??", File: fmt.Sprintf("%s+%#x", path, offset)}
	i := slices.IndexFunc(m.loads, func(p elf.ProgHeader) bool { return p.Off <= offset && offset-p.Off < p.Filesz })
	if i < 0 {
		return []check.Frame{f}
	}
	at := offset - m.loads[i].Off + m.loads[i].Vaddr
	n, _ := slices.BinarySearchFunc(m.functions, at+1,
		func(s elf.Symbol, v uint64) int { return cmp.Compare(s.Value, v) })
	if n > 0 {
		if s := m.functions[n-1]; s.Size == 0 || at-s.Value < s.Size {
			f.Function, _, _ = strings.Cut(s.Name, "@")
		}
	}
	if m.debug == nil {
		return []check.Frame{f}
	}
	return m.inlined(at, f)
}

// inlined adds lines, and the calls that are inlined, to the function of an address.
func (m *module) inlined(at uint64, f check.Frame) []check.Frame {
	dies := m.debug.Reader()
	unit, err := dies.SeekPC(at)
	if err != nil {
		return []check.Frame{f}
	}
	lines, err := m.debug.LineReader(unit)
	var e dwarf.LineEntry
	if err != nil || lines == nil || lines.SeekPC(at, &e) != nil || e.File == nil {
		return []check.Frame{f}
	}
	f.File, f.Line = e.File.Name, e.Line
	frames := []check.Frame{f}
	for d, err := dies.Next(); err == nil && d != nil && d.Tag != dwarf.TagCompileUnit; d, err = dies.Next() {
		ranges, _ := m.debug.Ranges(d)
		if !slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= at && at < r[1] }) {
			dies.SkipChildren()
			continue
		}
		if d.Tag != dwarf.TagInlinedSubroutine {
			continue
		}
		file, _ := d.Val(dwarf.AttrCallFile).(int64)
		line, _ := d.Val(dwarf.AttrCallLine).(int64)
		inner := frames[0]
		inner.Function = m.name(d)
		if all := lines.Files(); 0 <= file && int(file) < len(all) && all[file] != nil {
			frames[0].File, frames[0].Line = all[file].Name, int(line)
		}
		frames = slices.Insert(frames, 0, inner)
	}
	return frames
}

// name returns the name of a function whose entry refers to another one.
func (m *module) name(d *dwarf.Entry) string {
	for range 3 {
		if name, ok := d.Val(dwarf.AttrName).(string); ok {
			return name
		}
		at, ok := d.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			at, ok = d.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		r := m.debug.Reader()
		r.Seek(at)
		next, err := r.Next()
		if !ok || err != nil || next == nil {
			break
		}
		d = next
	}
	return "??"
}
