// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/spf13/cobra"
)

// sysfsWriter is the command that writes the description of this network namespace's devices into a folder. A
// container runtime runs it as a hook, when the container has its addresses and none of its programs runs yet.
const sysfsWriter = "write-sysfs"

func newSysfsWriterCmd() *cobra.Command {
	var command string
	c := &cobra.Command{Use: sysfsWriter + " FOLDER", Hidden: true, Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&command, "command", "", "where programs find this command, as rdma")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		s, err := describe(os.Environ(), true)
		if err != nil {
			return err
		}
		delete(s.Links, RDMATool)
		if command != "" {
			s.Links[RDMATool] = command
		}
		if err := emptyFolder(args[0]); err != nil {
			return err
		}
		if err := s.Write(args[0]); err != nil {
			return err
		}
		return readableByAll(args[0])
	})
}

// emptyFolder removes the files in a folder, which is mounted and has to stay the same one.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// readableByAll lets every user read a tree: a container's programs may run as any.
func readableByAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		case d.Type().IsRegular():
			return os.Chmod(path, 0o644)
		}
		return nil
	})
}
