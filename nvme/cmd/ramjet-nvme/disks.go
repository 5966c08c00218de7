// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/ramjet-rdma/ramjet/nvme"
)

// disks are the namespaces that serve serves.
type disks struct {
	sub      *nvme.Subsystem
	writable bool
	block    int
	out      io.Writer
	open     map[uint32]*openFile
	fixed    int // namespaces from 1 on that the command line names
}

type openFile struct {
	name  string
	close func() error
}

// add serves a file.
func (d *disks) add(id uint32, name string) error {
	n, closer, err := openDisk(name, d.writable, d.block)
	if err != nil {
		return err
	}
	n.ID = id
	if err := d.sub.AddNamespace(n); err != nil {
		closer()
		return fmt.Errorf("%s: %w", name, err)
	}
	d.open[id] = &openFile{name, closer}
	fmt.Fprintf(d.out, "namespace %d: %s, %s\n", id, name, humanize.IBytes(uint64(n.Size)))
	return nil
}

// remove serves a file no longer.
func (d *disks) remove(id uint32) error {
	f := d.open[id]
	delete(d.open, id)
	fmt.Fprintf(d.out, "namespace %d: %s, removed\n", id, f.name)
	return errors.Join(d.sub.RemoveNamespace(id), f.close())
}

// close closes all files.
func (d *disks) close() {
	for _, f := range d.open {
		f.close()
	}
}

// follow serves the disks that a list names, besides the command line's, and stops serving disks that it names no
// longer. A list that is wrong changes nothing.
func (d *disks) follow(list string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	want, err := readList(f, list, d.fixed)
	f.Close()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(d.open)) {
		if int(id) > d.fixed && want[id] != d.open[id].name {
			errs = append(errs, d.remove(id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if d.open[id] == nil {
			errs = append(errs, d.add(id, want[id]))
		}
	}
	return errors.Join(errs...)
}

// readList reads a list: lines of a namespace's number, from fixed+1 on, and its file. It returns the files by number.
func readList(r io.Reader, list string, fixed int) (map[uint32]string, error) {
	want, lines := map[uint32]string{}, bufio.NewScanner(r)
	for i := 1; lines.Scan(); i++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		number, name, _ := strings.Cut(text, " ")
		id, err := strconv.ParseUint(number, 10, 32)
		name = strings.TrimSpace(name)
		switch {
		case err != nil || name == "":
			return nil, fmt.Errorf("%s:%d: %q: write a namespace's number and its file, such as 7 disk.img", list, i,
				text)
		case id < 1 || id > nvme.MaxNamespaces:
			return nil, fmt.Errorf("%s:%d: namespace %d: there are numbers from 1 to %d", list, i, id,
				nvme.MaxNamespaces)
		case id <= uint64(fixed):
			return nil, fmt.Errorf("%s:%d: namespace %d is a file of the command line: take a number from %d on", list,
				i, id, fixed+1)
		case want[uint32(id)] != "":
			return nil, fmt.Errorf("%s:%d: namespace %d is there twice", list, i, id)
		}
		want[uint32(id)] = name
	}
	return want, lines.Err()
}
