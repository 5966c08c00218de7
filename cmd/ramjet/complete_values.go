// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/devicescmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// completeCommands offers the commands below the one that args name.
func completeCommands(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	of, rest, err := c.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, sub := range of.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeDevices offers this host's devices.
func completeDevices(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, err := devicescmd.Local()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, d := range found {
		names = append(names, cobra.CompletionWithDesc(d.Name.String(), d.NetDev))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeDevicesAndKinds offers this host's devices, and kinds whose addresses a command chooses.
func completeDevicesAndKinds(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	names, directive := completeDevices(c, args, text)
	for _, k := range kinds.Names() {
		names = append(names, k+":")
	}
	return names, directive
}

// completeDevicesInUse offers the devices of the process that the first argument names, or of all.
func completeDevicesInUse(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	of := processes(c)
	if len(args) > 0 {
		of = slices.DeleteFunc(of, func(p statsocket.Process) bool { return strconv.Itoa(p.PID) != args[0] })
	}
	return statcmd.DeviceNames(of), cobra.ShellCompDirectiveNoFileComp
}

// completeErrors offers the names that `ramjet explain` knows, also without their prefixes once a letter is typed:
// REM_ACCESS_ERR.
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

// completeNodesAndFiles offers the nodes of a fabric, and files if something of one is written.
func completeNodesAndFiles(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	names, directive := completeNodes(c, args, text)
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, text) }) {
		return completeFiles(c, args, text)
	}
	return names, directive
}

// completeHostsAndDevices offers the subjects of doctor's reports.
func completeHostsAndDevices(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	hosts, directive := completeHosts(c, args, text)
	devices, _ := completeDevices(c, args, text)
	return append(hosts, devices...), directive
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
	if !slices.ContainsFunc(args, func(a string) bool { return slices.Contains(statcmd.ViewNames(), a) }) {
		for _, v := range statcmd.Views {
			values = append(values, cobra.CompletionWithDesc(v.Name, v.Text))
		}
	}
	pids, directive := completeProcesses(c, args, "")
	return append(values, pids...), directive
}

// completeProcesses offers the processes that have devices.
func completeProcesses(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var values []string
	for _, p := range processes(c) {
		values = append(values, cobra.CompletionWithDesc(strconv.Itoa(p.PID), p.Command))
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// completeFaultArguments offers the processes that have devices, then faults.
func completeFaultArguments(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completeProcesses(c, args, text)
	}
	return completeFaults(c, args, text)
}

// completeFaults offers the words that faults begin with, and files if no such word is written.
func completeFaults(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	if names := kinds.FaultNames(); slices.ContainsFunc(names,
		func(n string) bool { return strings.HasPrefix(n, text) }) {
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// hostsFile has the host names for completion.
const hostsFile = "/etc/hosts"

// completionTime bounds the wait of a person who has pressed the tab key.
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

// completePipe offers hosts, or with --listen addresses of this host. The port is anything.
func completePipe(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	listen, _ := c.Flags().GetBool("listen")
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case listen:
		return completeLocalPorts(c, args, text)
	}
	return completeHosts(c, args, text)
}

// completeLocal offers the addresses of this host.
func completeLocal(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, _ := net.InterfaceAddrs() // there is nothing to say to a shell
	var addresses []string
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() { // which needs a zone
			addresses = append(addresses, n.IP.String())
		}
	}
	return addresses, cobra.ShellCompDirectiveNoFileComp
}

// completeLocalPorts offers the addresses of this host, where a port has to follow.
func completeLocalPorts(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	addresses, directive := completeLocal(c, args, text)
	return withColons(addresses), directive | cobra.ShellCompDirectiveNoSpace
}

// withColons puts a colon behind each host. An IPv6 address has brackets.
func withColons(hosts []string) []string {
	for i, h := range hosts {
		if strings.Contains(h, ":") {
			h = "[" + h + "]"
		}
		hosts[i] = h + ":"
	}
	return hosts
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

// completeServers offers hosts with the colon that `ramjet ls` wants behind them.
func completeServers(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	names, _ := completeHosts(c, args, text)
	return withColons(names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeCopies offers servers that begin with text, or else files: shells offer files only where there is nothing
// else.
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

// completeFilesNamed offers files whose names end so, and folders; or all, where no file of that kind is.
func completeFilesNamed(extensions ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		for _, e := range extensions {
			if found, _ := filepath.Glob(text + "*." + e); len(found) > 0 {
				return extensions, cobra.ShellCompDirectiveFilterFileExt
			}
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

func completeDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
