// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// NewLs returns `ramjet ls`.
func NewLs() *cobra.Command {
	var dev cli.DeviceFlags
	var long, asJSON bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "ls HOST[:PORT]:[PATH]",
		Short: "List the files of a `ramjet serve --read`",
		Long: "List a directory that a `ramjet serve --read` serves. PATH is relative to the directory that is served; if empty, it is that directory. Names of directories end in /,\n" +
			"and those of anything that is neither file nor directory, such as a symbolic link, in @. Incomplete files are not\n" +
			"listed.",
		Example: "  ramjet ls -l 192.0.2.7:photos",
		Args:    cli.Arguments(1, 1),
	}
	dev.Add(c)
	c.Flags().BoolVarP(&long, "long", "l", false, "show permissions, bytes and modification time too")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cli.AddTimeoutFlag(c, &timeout)
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		address, path, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		dev.Peer = address
		return dev.With(c, func(d *verbs.Device) error {
			client, err := filecopy.Dial(c.Context(), d, address, timeout)
			if err != nil {
				return cli.DialError(err, d, "`ramjet serve`")
			}
			defer client.Close()
			list, err := client.List(c.Context(), cmp.Or(path, "."))
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			slices.SortFunc(list, func(a, b filecopy.Entry) int { return strings.Compare(a.Base, b.Base) })
			return writeList(c.OutOrStdout(), d.Name(), list, long, asJSON)
		})
	})
}

// Entry is an entry in JSON.
type Entry struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"`
	Bytes    int64     `json:"size_bytes"`
	Mode     string    `json:"mode"` // octal
	Modified time.Time `json:"modified"`
}

// writeList writes a list that came by a device.
func writeList(w io.Writer, device string, list []filecopy.Entry, long, asJSON bool) error {
	if asJSON {
		all := []Entry{}
		for i := range list {
			e := &list[i]
			kind := map[filecopy.FileKind]string{filecopy.File: "file", filecopy.Dir: "directory",
				filecopy.Other: "other"}[e.Kind]
			all = append(all, Entry{e.Base, kind, e.Size(), fmt.Sprintf("%04o", e.Mode().Perm()), e.ModTime().UTC()})
		}
		return cli.WriteJSON(w, struct {
			Entries []Entry `json:"entries"`
		}{all}, device)
	}
	width := 0
	for i := range list {
		width = max(width, len(strconv.FormatInt(list[i].Size(), 10)))
	}
	for i := range list {
		e := &list[i]
		name := filecopy.Printable(e.Base) + map[filecopy.FileKind]string{filecopy.Dir: "/",
			filecopy.Other: "@"}[e.Kind]
		if !long {
			fmt.Fprintln(w, name)
			continue
		}
		fmt.Fprintf(w, "%v  %*d  %s  %s\n", e.Mode().Perm(), width, e.Size(), e.ModTime().Local().Format(time.DateTime),
			name)
	}
	return nil
}
