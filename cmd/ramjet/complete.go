// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
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
	case "tls-cert", "tls-key", "tls-ca", "cpuprofile", "topology", "partitions", "script":
		return completeFiles
	case "libs":
		return completeDirs
	case "name", "fabric":
		return completeFabrics
	case "routing":
		return fixed("auto", "min-hop", "up-down")
	case "star":
		return fixed("8")
	case "line", "ring", "fat-tree":
		return fixed("4,2")
	case "xgft":
		return fixed("10,8;1,5")
	case "route":
		return completeRoute
	case "sort":
		return fixed(topSortNames()...)
	case "conversation":
		return fixed("all")
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
		return completeErrors
	case c.Name() == "stat":
		return completeStat
	case c.Name() == "serve", c.Name() == "man":
		return onlyFirst(completeDirs)
	case c.Name() == "show":
		return onlyFirst(completeNodes)
	case c.Name() == "fabric", c.Name() == "ladder":
		return onlyFirst(completeFiles)
	case c.Name() == "ls":
		return onlyFirst(completeServers)
	case c.Name() == "cp":
		return completeCopies
	case c.Name() == "run":
		return completeProgram
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

// completeErrors offers what `ramjet explain` knows, without their prefixes too once something is written: REM_ACCESS_ERR.
func completeErrors(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	names := explain.Names()
	if text != "" {
		names = append(names, explain.ShortNames()...)
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

// completeRoute offers pairs of nodes of the fabric that --name names, as far as their names have been written.
func completeRoute(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	names, directive := completeNodes(c, args, text)
	if from, _, second := strings.Cut(text, ","); second {
		for i := range names {
			names[i] = from + "," + names[i]
		}
		return names, directive
	}
	for i := range names {
		names[i] += ","
	}
	return names, directive | cobra.ShellCompDirectiveNoSpace
}

// completeStat offers the views, until there is one, and the processes that have devices.
func completeStat(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var values []string
	if !slices.ContainsFunc(args, func(a string) bool { return slices.Contains(statViewNames(), a) }) {
		for _, v := range statViews {
			values = append(values, cobra.CompletionWithDesc(v.name, v.text))
		}
	}
	for _, p := range processes(c) {
		values = append(values, cobra.CompletionWithDesc(strconv.Itoa(p.PID), p.Command))
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// completionTime bounds what a person waits for who has pressed the tab key.
const completionTime = 500 * time.Millisecond

// processes returns the processes with devices that tell their state soon.
func processes(c *cobra.Command) []statsocket.Process {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found, _ := statsocket.Read(ctx, 0) // there is nothing to say to a shell
	return slices.DeleteFunc(found, func(p statsocket.Process) bool { return p.State == nil })
}

// completeHosts offers the hosts in use, and the names of /etc/hosts.
func completeHosts(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := hostsInUse(processes(c))
	if text, err := os.ReadFile(hostsFile); err == nil {
		names = append(names, hostNames(string(text))...)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// hostsInUse returns the addresses that processes of this machine listen at, or are connected to.
func hostsInUse(of []statsocket.Process) (hosts []string) {
	for _, p := range of {
		for i := range p.State.Devices {
			for _, conn := range p.State.Devices[i].Conns {
				addr := conn.Peer.Addr()
				if conn.Listening {
					addr = conn.Local.Addr()
				}
				if addr.IsValid() && !addr.IsUnspecified() {
					hosts = append(hosts, addr.String())
				}
			}
		}
	}
	return hosts
}

// completeServers offers hosts with the colon that `ramjet ls` wants behind them. An IPv6 address has brackets.
func completeServers(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	names, _ := completeHosts(c, args, text)
	for i, name := range names {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		names[i] = name + ":"
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeCopies offers servers that begin with text, or else files: shells offer files only where there is nothing else.
func completeCopies(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if files, _ := filepath.Glob(text + "*"); text == "" || len(files) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	servers, _ := completeServers(c, args, text)
	servers = slices.DeleteFunc(servers, func(s string) bool { return !strings.HasPrefix(s, text) })
	return servers, cobra.ShellCompDirectiveNoSpace
}

// completeProgram offers the programs of $PATH that begin with text, and files after the first argument.
func completeProgram(_ *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	var programs []string
	if len(args) == 0 && text != "" && !strings.ContainsRune(text, os.PathSeparator) {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			found, _ := filepath.Glob(filepath.Join(dir, text+"*"))
			for _, path := range found {
				programs = append(programs, filepath.Base(path))
			}
		}
	}
	slices.Sort(programs)
	return slices.Compact(programs), cobra.ShellCompDirectiveDefault
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
