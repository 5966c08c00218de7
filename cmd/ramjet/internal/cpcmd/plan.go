// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// copyPlan lists the files that are to be copied, in order.
type copyPlan struct {
	items   []copyItem
	sources int // given on the command line
	files   int
	bytes   int64
	skipped []string // neither files nor directories, or incomplete
}

// copyItem is a file or directory.
type copyItem struct {
	local  string // as it is shown; the path of a file here
	remote string // the name of one at a server
	base   string // base name of its source
	below  string // path within the source, "." for the source itself
	info   fs.FileInfo
	err    error // why the item is incomplete; if info is not set, nothing is known of it
}

// name returns the name of the copy. target names the directory that the sources go to,
// or, if as, the source itself.
func (i *copyItem) name(target string, as bool) string {
	if as {
		return path.Join(target, i.below)
	}
	return path.Join(target, i.base, i.below)
}

// planCopy walks the sources.
func planCopy(sources []string, recursive bool) (*copyPlan, error) {
	p := &copyPlan{sources: len(sources)}
	for _, source := range sources {
		info, err := os.Stat(source) // follows a symbolic link named as a source
		if err != nil {
			return nil, usage.Of(err)
		}
		whole, err := filepath.Abs(source)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(whole)
		switch {
		case info.Mode().IsRegular():
			p.add(copyItem{local: source, base: base, below: ".", info: info})
		case !info.IsDir():
			return nil, cli.Usagef("%s is neither a file nor a directory", source)
		case !recursive:
			return nil, cli.Usagef("%s is a directory: give --recursive (-r) to copy it", source)
		default:
			if err := p.walk(source, base); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *copyPlan) add(i copyItem) {
	p.items = append(p.items, i)
	if i.info != nil && !i.info.IsDir() {
		p.files++
		p.bytes += i.info.Size()
	}
}

// walk adds a directory and everything in it. An entry that cannot be read is recorded, and the walk
// goes on.
func (p *copyPlan) walk(source, base string) error {
	root := filepath.Clean(source)
	if info, err := os.Lstat(root); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		root += string(filepath.Separator) // WalkDir does not follow a link
	}
	return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case e == nil:
			return err
		case err != nil: // of the directory just added
			p.items[len(p.items)-1].err = err
			return nil
		}
		if !e.IsDir() && (!e.Type().IsRegular() || filecopy.IsPartial(e.Name())) {
			p.skipped = append(p.skipped, name)
			return nil
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		p.add(copyItem{local: name, base: base, below: filepath.ToSlash(below), info: info, err: err})
		return nil
	})
}
