// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// destination is the folder or file that gets the files: at a server, or here.
type destination interface {
	mkdir(ctx context.Context, name string) error
	setAttr(ctx context.Context, name string, info fs.FileInfo) error
	copy(ctx context.Context, item *copyItem, name string, report func(int64)) (filecopy.Copied, error)
}

// atServer is a server's directory.
type atServer struct{ *filecopy.Client }

func (a atServer) mkdir(ctx context.Context, name string) error { return a.Mkdir(ctx, name) }

func (a atServer) setAttr(ctx context.Context, name string, info fs.FileInfo) error {
	return a.SetAttr(ctx, name, info)
}

func (a atServer) copy(ctx context.Context, item *copyItem, name string, report func(int64)) (filecopy.Copied, error) {
	return a.Put(ctx, item.local, name, report)
}

// copyRun carries out a plan.
type copyRun struct {
	to      destination
	plan    *copyPlan
	verbose bool
	json    bool
	device  string // by which it goes
	out     io.Writer
	log     io.Writer

	bar         *copyBar
	files       int
	bytes, kept int64
	failed      int
	copied      []CopiedFile
}

// CopiedFile is a file that was copied, in JSON.
type CopiedFile struct {
	Name   string `json:"name"` // as it is at the source
	Bytes  int64  `json:"size_bytes"`
	Kept   int64  `json:"kept_bytes"` // that were there already
	SHA256 string `json:"sha256"`
}

// run copies everything to target, a directory or, if as, a name for the source itself. A file that
// fails does not stop the others.
func (r *copyRun) run(ctx context.Context, target string, as bool) error {
	for _, name := range r.plan.skipped {
		fmt.Fprintf(r.log, "%s: left out: neither a file nor a directory, or the incomplete copy of a file\n", name)
	}
	start := time.Now()
	r.bar = newCopyBar(r.log, r.plan.bytes)
	err := r.items(ctx, target, as)
	r.bar.stop()
	if took := time.Since(start); !r.json {
		r.summary(took)
	} else if failed := r.writeJSON(took); failed != nil {
		return failed
	}
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(r.log, "the same command continues where this one stopped")
		return err
	case errors.Is(err, filecopy.ErrLost):
		return fmt.Errorf("%w: the same command continues where this one stopped", err)
	case err != nil:
		return err
	case r.failed > 0:
		return fmt.Errorf("%d of %d files and directories were not copied", r.failed, len(r.plan.items))
	}
	return nil
}

// targetAt returns where at a server the sources go: into a directory, or, if as, to this name.
func targetAt(ctx context.Context, client *filecopy.Client, p *copyPlan, path string) (target string, as bool,
	err error) {
	if path == "" {
		return ".", false, nil
	}
	target = strings.TrimRight(path, "/")
	if target == "" {
		target = "/" // which the server refuses
	}
	kind, err := client.Stat(ctx, target)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%s: %w", path, err)
	case kind == filecopy.Dir:
		return target, false, nil
	case p.sources > 1 || target != path:
		return "", false, cli.Usagef("%s is not a directory at the server", path)
	case kind != filecopy.None && p.items[0].info.IsDir():
		return "", false, cli.Usagef("%s is a file at the server, and %s a directory", path, p.items[0].local)
	}
	return target, true, nil
}

// items copies the plan's items, and finally sets the permissions and times of directories.
func (r *copyRun) items(ctx context.Context, target string, as bool) error {
	var dirs []*copyItem
	for i := range r.plan.items {
		item := &r.plan.items[i]
		name := item.name(target, as)
		err := item.err
		switch {
		case item.info == nil:
		case item.info.IsDir():
			if failed := r.to.mkdir(ctx, name); failed != nil {
				err = failed
			} else {
				dirs = append(dirs, item)
			}
		default:
			err = r.file(ctx, item, name)
		}
		if err := r.note(ctx, item, err); err != nil {
			return err
		}
	}
	for _, item := range slices.Backward(dirs) { // inner directories first
		if err := r.note(ctx, item, r.to.setAttr(ctx, item.name(target, as), item.info)); err != nil {
			return err
		}
	}
	return nil
}

// note counts a failure of an item. It returns errors that end everything.
func (r *copyRun) note(ctx context.Context, item *copyItem, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, filecopy.ErrLost) {
		return err
	}
	r.failed++
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err // the item's name is printed before it
	}
	fmt.Fprintf(r.bar.log(r.log), "%s: %v\n", item.local, err)
	return nil
}

func (r *copyRun) file(ctx context.Context, item *copyItem, name string) error {
	r.bar.file(item.local)
	got, err := r.to.copy(ctx, item, name, r.bar.add)
	if err != nil {
		return err
	}
	r.files++
	r.bytes += got.Size
	r.kept += got.Kept
	if r.json {
		r.copied = append(r.copied, CopiedFile{item.local, got.Size, got.Kept, fmt.Sprintf("%x", got.Sum)})
	} else if r.verbose {
		fmt.Fprintf(r.bar.log(r.out), "%x  %s\n", got.Sum, item.local)
	}
	return nil
}

func (r *copyRun) summary(took time.Duration) {
	fmt.Fprintf(r.out, "%d of %d files copied and verified, %s in %s", r.files, r.plan.files,
		units.Plural(r.bytes, "byte"), units.Duration(took))
	if r.kept > 0 {
		fmt.Fprintf(r.out, ", %s bytes were there already", units.Count(r.kept))
	}
	if sent := r.bytes - r.kept; sent > 0 {
		fmt.Fprintf(r.out, ", %s", units.Rate(float64(sent)/took.Seconds()))
	}
	fmt.Fprintln(r.out)
}

// writeJSON writes the copied files, also if some failed.
func (r *copyRun) writeJSON(took time.Duration) error {
	rate := 0.0
	if sent := r.bytes - r.kept; took > 0 {
		rate = float64(sent) / took.Seconds()
	}
	return cli.WriteJSON(r.out, struct {
		Files   []CopiedFile  `json:"files"`
		Planned int           `json:"planned_files"`
		Failed  int           `json:"failed"` // files and directories
		Bytes   int64         `json:"size_bytes"`
		Kept    int64         `json:"kept_bytes"`
		Elapsed time.Duration `json:"elapsed_ns"`
		Rate    float64       `json:"bytes_per_second"` // of the bytes that were not there already
	}{append([]CopiedFile{}, r.copied...), r.plan.files, r.failed, r.bytes, r.kept, took, rate}, r.device)
}
