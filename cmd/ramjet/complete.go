// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// hostsFile has the host names for completion.
const hostsFile = "/etc/hosts"

// addCompletions adds completions for the values of all flags and arguments below root. Files are
// offered only where a command takes one.
func addCompletions(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	eachCommand(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if complete := flagValues(c, f.Name); complete != nil {
				c.RegisterFlagCompletionFunc(f.Name, complete) // fails if one is already registered
			}
		})
		if complete := argumentValues(c); complete != nil {
			c.ValidArgsFunction = complete
		}
	})
}

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, do)
	}
}

// flagValues returns the completion of a flag's values, or nil if there is none.
func flagValues(c *cobra.Command, flag string) cobra.CompletionFunc {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	switch flag {
	case "device":
		switch {
		case c.Name() == "demo", strings.Contains(c.CommandPath(), " bench "):
			return fixed(kinds.Names()...)
		case c.Name() == "table":
			return fixed(figureKinds()...)
		}
		return completeDevices
	case "mtu":
		return fixed("256", "512", "1024", "2048", "4096")
	case "connection":
		if strings.Contains(c.CommandPath(), " write ") {
			return fixed("RC", "UC")
		}
		return fixed("RC", "UC", "UD")
	case "output":
		return fixed("table", "csv", "json")
	case "atomic-type":
		return fixed("FETCH_AND_ADD", "CMP_AND_SWAP")
	case "addr":
		return completeHosts
	case "tls-cert", "tls-key", "tls-ca", "cpuprofile":
		return completeFiles
	case "libs":
		return completeDirs
	case "name", "fabric":
		return completeFabrics
	case "generate":
		return fixed("pair", "star:8", "line:4,2", "ring:4,2", "fat-tree:4,2", "xgft:10,8;1,5")
	}
	return nil
}

// argumentValues returns the completion of a command's arguments, or nil if there is none.
func argumentValues(c *cobra.Command) cobra.CompletionFunc {
	switch {
	case c.Name() == "devices":
		return completeDevices
	case c.Name() == "explain":
		return cobra.FixedCompletions(explain.Names(), cobra.ShellCompDirectiveNoFileComp)
	case c.Name() == "stat":
		return cobra.FixedCompletions(statViewNames(), cobra.ShellCompDirectiveNoFileComp)
	case c.Name() == "serve":
		return onlyFirst(completeDirs)
	case c.Name() == "show":
		return onlyFirst(completeNodes)
	case c.Name() == "fabric", c.Name() == "ladder":
		return onlyFirst(completeFiles)
	case c.Name() == "ls":
		return onlyFirst(completeServers)
	case c.Name() == "cp", c.Name() == "run":
		return completeFiles
	case strings.HasSuffix(c.Use, "[HOST]"), c.Name() == "pipe":
		return onlyFirst(completeHosts)
	}
	return nil
}

// onlyFirst completes the first argument, and nothing after it.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, text)
	}
}

// completeDevices offers this host's devices.
func completeDevices(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, err := localDevices()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, d := range found {
		names = append(names, cobra.CompletionWithDesc(d.name.String(), d.NetDev))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFabrics offers the fabrics that run under a name.
func completeFabrics(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := slices.DeleteFunc(infiniband.Names(), func(n string) bool { return n == "" })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeNodes offers the nodes of the fabric that --name names.
func completeNodes(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	name, _ := c.Flags().GetString("name")
	v, err := infiniband.View(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range v.Nodes {
		names = append(names, v.Nodes[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeHosts offers the names of /etc/hosts.
func completeHosts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	text, err := os.ReadFile(hostsFile)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return hostNames(string(text)), cobra.ShellCompDirectiveNoFileComp
}

// completeServers offers them with the colon that `ramjet ls` wants behind them.
func completeServers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, _ := completeHosts(nil, nil, "")
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// hostNames returns the names in a file of the format of hosts(5).
func hostNames(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 {
			names = append(names, fields[1:]...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func completeDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
