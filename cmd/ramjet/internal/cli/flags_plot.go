// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/plots"
)

// PlotFiles are the flags of commands that draw their measurements.
type PlotFiles struct {
	SVG, PNG plotFile
	output   string // either of them, by its name
}

// plotFile is a file for a drawing. The file keeps its old contents until the drawing is written.
type plotFile struct {
	Name    string
	flag    string // that has given the name
	file    *os.File
	created bool // by this command
}

// Add adds --svg, --png, and --output for either, to a command.
func (p *PlotFiles) Add(c *cobra.Command) {
	c.Flags().StringVarP(&p.output, "output", "o", "", "draw the results in `file`, by its name: .svg or .png")
	c.MarkFlagFilename("output", "svg", "png")
	p.SVG.flag, p.PNG.flag = "--svg", "--png"
	c.Flags().StringVar(&p.SVG.Name, "svg", "", "draw the results in `file`, as SVG")
	c.Flags().StringVar(&p.PNG.Name, "png", "", "draw the results in `file`, as PNG")
	c.MarkFlagFilename("svg", "svg")
	c.MarkFlagFilename("png", "png")
}

// take takes --output for the flag that its name stands for.
func (p *PlotFiles) take() error {
	of := &p.SVG
	switch ext := strings.ToLower(filepath.Ext(p.output)); {
	case p.output == "":
		return nil
	case ext == ".png":
		of = &p.PNG
	case ext != ".svg":
		return Usagef("-o %q: give a name that ends in .svg or .png", p.output)
	}
	if of.Name != "" && of.Name != p.output {
		return Usagef("-o %q and %q: give one file of this form", p.output, of.Name)
	}
	of.Name, of.flag = p.output, "-o"
	return nil
}

// Open opens the files, so that a name that cannot be is an error before anything is measured.
func (p *PlotFiles) Open() error {
	if err := p.take(); err != nil {
		return err
	}
	for _, f := range []*plotFile{&p.SVG, &p.PNG} {
		if f.Name == "" {
			continue
		}
		var err error
		f.file, err = os.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		f.created = err == nil
		if errors.Is(err, fs.ErrExist) {
			f.file, err = os.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE, 0o666)
		}
		if err != nil {
			p.Discard()
			return Usagef("%s: %w", f.flag, err)
		}
	}
	return nil
}

// Write draws charts in the files.
func (p *PlotFiles) Write(charts ...plots.Chart) error {
	return errors.Join(p.SVG.write(plots.WriteSVG, charts), p.PNG.write(plots.WritePNG, charts))
}

func (f *plotFile) write(draw func(io.Writer, ...plots.Chart) error, charts []plots.Chart) error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := f.file.Truncate(0); err != nil {
			return err
		}
	}
	if err := draw(f.file, charts...); err != nil {
		return err
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Discard closes the files that were not written, and removes the files that this command created.
func (p *PlotFiles) Discard() {
	for _, f := range []*plotFile{&p.SVG, &p.PNG} {
		if f.file == nil {
			continue
		}
		info, err := f.file.Stat()
		f.file.Close()
		if f.file = nil; err == nil && f.created && info.Size() == 0 {
			removeSame(f.Name, info)
		}
	}
}

// removeSame removes a regular file, unless another has its name now.
func removeSame(name string, is fs.FileInfo) {
	if there, err := os.Lstat(name); err == nil && is.Mode().IsRegular() && os.SameFile(there, is) {
		os.Remove(name)
	}
}
