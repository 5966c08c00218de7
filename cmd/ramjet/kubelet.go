// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// kubeletProgram is the program that `ramjet kubelet` starts. It is a module of its own, as Kubernetes' packages are
// larger than this command.
const kubeletProgram = "ramjet-kubelet"

func newKubeletCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "kubelet [flags]",
		Short: "Give pods of a Kubernetes node RDMA devices without hardware",
		Long: "Kubelet starts " + kubeletProgram + ", a device plugin of the kubelet and a driver of dynamic resource allocation. It\n" +
			"is looked for beside this command, then in PATH, and is built by `go build ./cmd/" + kubeletProgram + "` in the\n" +
			"folder kubernetes of a checkout. `ramjet kubelet --help` shows its flags if it is there.",
		Example:            "  ramjet kubelet",
		DisableFlagParsing: true,
	}
	return leaf(c, func(c *cobra.Command, args []string) error {
		program, err := findKubelet()
		if err != nil {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return c.Help()
			}
			return usagef("%w: it is built by `go build ./cmd/%s` in the folder kubernetes of a checkout", err, kubeletProgram)
		}
		run := exec.CommandContext(c.Context(), program, args...)
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
		run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := run.Run(); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		return nil
	})
}

// findKubelet returns the program's path.
func findKubelet() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), kubeletProgram)); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(kubeletProgram)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this command nor in PATH", kubeletProgram)
	}
	return path, nil
}
