// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/spf13/cobra"
)

// moduleProgram is a program of a module of its own, whose dependencies are larger than this command. A command starts
// it.
type moduleProgram struct {
	command string
	program string
	folder  string // of its module
	short   string
	what    string // the program is
}

var modulePrograms = []moduleProgram{
	{"kubelet", "ramjet-kubelet", "kubernetes", "Give pods of a Kubernetes node RDMA devices without hardware",
		"a device plugin of the kubelet and a driver of dynamic resource allocation"},
	{"nvme", "ramjet-nvme", "nvme", "Serve and use disks by NVMe over RDMA", "a target and a host of NVMe over RDMA"},
	{"smb", "ramjet-smb", "smbdirect", "Copy files of SMB shares by SMB Direct, and be a gateway to SMB servers",
		"a client of SMB shares over SMB Direct, and a gateway to SMB servers over TCP"},
}

// newProgramCmds returns the commands that start the programs.
func newProgramCmds() (cs []*cobra.Command) {
	for _, p := range modulePrograms {
		cs = append(cs, p.newCmd())
	}
	return cs
}

func (p *moduleProgram) newCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   p.command + " [flags]",
		Short: p.short,
		Long: "Starts " + p.program + ", " + p.what + ".\n\n" +
			"It is looked for beside this command, then in PATH, and is built by `go build ./cmd/" + p.program +
			"` in the\n" +
			"folder " + p.folder + " of a checkout. `ramjet " + p.command + " --help` shows its flags if it is there.",
		Example:            "  ramjet " + p.command,
		DisableFlagParsing: true,
	}
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		program, err := p.find()
		if err != nil {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return c.Help()
			}
			return cli.Usagef("%w: it is built by `go build ./cmd/%s` in the folder %s of a checkout", err, p.program,
				p.folder)
		}
		run := exec.CommandContext(c.Context(), program, args...)
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
		run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = run.Run()
		switch state := run.ProcessState; {
		case err == nil:
			return nil
		case state != nil && state.Exited():
			return cli.Exited(state.ExitCode())
		}
		return fmt.Errorf("%s: %w", program, err)
	})
}

// find returns the program's path.
func (p *moduleProgram) find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), p.program)); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(p.program)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this command nor in PATH", p.program)
	}
	return path, nil
}
