// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// here is a directory of this host.
type here struct {
	*filecopy.Client
	root *os.Root
}

func (h here) mkdir(_ context.Context, name string) error {
	name = filepath.FromSlash(name)
	err := h.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if info, serr := h.root.Stat(name); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

func (h here) setAttr(_ context.Context, name string, info fs.FileInfo) error {
	name = filepath.FromSlash(name)
	if err := h.root.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return h.root.Chmod(name, info.Mode().Perm())
}

func (h here) copy(ctx context.Context, item *copyItem, name string, report func(int64)) (filecopy.Copied, error) {
	return h.Get(ctx, item.remote, h.root, name, report)
}

// fetch copies sources of one server to a target here.
func (f *cpFlags) fetch(c *cobra.Command, sources []string, target string) error {
	var address string
	var paths []string
	for _, s := range sources {
		at, path, err := parseTarget(s)
		if err != nil {
			return err
		}
		if address != "" && at != address {
			return cli.Usagef("%s is at another server than %s: fetch from one at a time", s, sources[0])
		}
		address, paths = at, append(paths, path)
	}
	f.dev.Peer = address
	return f.dev.With(c, func(dev *verbs.Device) error {
		client, err := filecopy.Dial(c.Context(), dev, address, f.timeout)
		if err != nil {
			return cli.DialError(err, dev, "`ramjet serve`")
		}
		defer client.Close()
		p := &copyPlan{}
		for _, path := range paths {
			if err := p.lookup(c.Context(), client, path, f.recursive); err != nil {
				return err
			}
		}
		root, name, as, err := targetHere(p, target)
		if err != nil {
			return err
		}
		defer root.Close()
		run := &copyRun{to: here{client, root}, plan: p, verbose: f.verbose, json: f.json, device: dev.Name(),
			out: c.OutOrStdout(), log: c.ErrOrStderr()}
		return run.run(c.Context(), name, as)
	})
}

// targetHere opens where sources go here: into a directory, or, if as, to this name in it.
func targetHere(p *copyPlan, target string) (root *os.Root, name string, as bool, err error) {
	info, err := os.Stat(target)
	if err == nil && info.IsDir() {
		root, err := openRoot(target)
		return root, ".", false, err
	}
	switch {
	case p.sources != 1 || target == "" || os.IsPathSeparator(target[len(target)-1]):
		return nil, "", false, cli.Usagef("%s is not a directory here", target)
	case err == nil && p.items[0].info.IsDir():
		return nil, "", false, cli.Usagef("%s is a file here, and %s a directory", target, p.items[0].local)
	}
	root, err = openRoot(filepath.Dir(target))
	return root, filepath.Base(target), true, err
}

func openRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, usage.Of(err)
	}
	return root, nil
}

// maxFetched is how many files and directories of a server one command copies.
const maxFetched = 1 << 22

// lookup adds a source at a server, with all that is in it.
func (p *copyPlan) lookup(ctx context.Context, client *filecopy.Client, source string, recursive bool) error {
	name := path.Clean(source)
	if source != "" && name != "." {
		e, err := client.Lookup(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		p.sources++
		return p.addRemote(ctx, client, e, name, ".", recursive)
	}
	if !recursive {
		return cli.Usagef("the source is the whole served directory: give --recursive (-r) to copy what is in it")
	}
	list, err := client.List(ctx, ".")
	if err != nil {
		return err
	}
	p.sources += 2 // any number: they go into a directory
	for i := range list {
		if err := p.addRemote(ctx, client, &list[i], list[i].Base, ".", true); err != nil {
			return err
		}
	}
	return nil
}

// addRemote adds the server's file or directory of that name, to which below is the path within its
// source. A directory that cannot be listed is recorded, and the walk goes on.
func (p *copyPlan) addRemote(ctx context.Context, client *filecopy.Client, e *filecopy.Entry, name, below string,
	recursive bool) error {
	shown := filecopy.Printable(name)
	switch {
	case e.Kind == filecopy.Other && below == "." && p.sources == 1:
		return cli.Usagef("%s is neither a file nor a directory", shown)
	case e.Kind == filecopy.Other:
		p.skipped = append(p.skipped, shown)
		return nil
	case e.IsDir() && !recursive:
		return cli.Usagef("%s is a directory: give --recursive (-r) to copy it", shown)
	case len(p.items) == maxFetched:
		return fmt.Errorf("the server has more than %d files and directories: copy parts of them", maxFetched)
	}
	base := name
	if below != "." {
		base = strings.TrimSuffix(name, "/"+below)
	}
	p.add(copyItem{local: shown, remote: name, base: path.Base(base), below: below, info: e})
	if !e.IsDir() {
		return nil
	}
	own := len(p.items) - 1
	list, err := client.List(ctx, name)
	if errors.Is(err, filecopy.ErrLost) || ctx.Err() != nil {
		return err
	}
	p.items[own].err = err
	slices.SortFunc(list, func(a, b filecopy.Entry) int { return strings.Compare(a.Base, b.Base) })
	for i := range list {
		if err := p.addRemote(ctx, client, &list[i], path.Join(name, list[i].Base), path.Join(below, list[i].Base),
			true); err != nil {
			return err
		}
	}
	return nil
}
