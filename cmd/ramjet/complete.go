// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/perfcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/topcmd"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

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

// Lists of values that completion offers.
var (
	shapesOffered    = []string{"pair", "star:8", "line:4,2", "ring:4,2", "fat-tree:4,2", "xgft:10,8;1,5"}
	captureFiles     = []string{"pcapng", "pcap", "cap"}
	scenarioFiles    = []string{"yaml", "yml"}
	certificateFiles = []string{"pem", "crt", "cer", "key"}
)

// flagValues returns the completion of a flag's values, or nil if there is none.
func flagValues(c *cobra.Command, flag string) cobra.CompletionFunc {
	switch flag {
	case "device":
		return deviceValues(c)
	case "connection":
		if strings.Contains(c.CommandPath(), " write ") {
			return offer("RC", "UC")
		}
		return offer("RC", "UC", "UD")
	case "addr", "listen":
		if c.Name() == "fabric" {
			return completeLocalPorts
		}
		if flag == "listen" {
			return completeLocal
		}
		return completeHosts
	case "csv":
		if c.Name() == "sim" {
			return completeDirs
		}
	case "star", "line", "ring", "fat-tree", "xgft", "generate":
		return offerShapes(flag)
	}
	return flagCompletions[flag]
}

// flagCompletions are the completions of flags that mean one thing in all commands.
var flagCompletions = map[string]cobra.CompletionFunc{
	"mtu":          offer("256", "512", "1024", "2048", "4096"),
	"format":       offer("table", "csv", "json"),
	"atomic-type":  offer("FETCH_AND_ADD", "CMP_AND_SWAP"),
	"tls-cert":     completeFilesNamed(certificateFiles...),
	"tls-key":      completeFilesNamed(certificateFiles...),
	"tls-ca":       completeFilesNamed(certificateFiles...),
	"cpuprofile":   completeFiles,
	"fault-log":    completeFiles,
	"log":          completeFiles,
	"partitions":   completeFiles,
	"script":       completeFiles,
	"topology":     completeFiles,
	"faults":       completeFaults,
	"libs":         completeDirs,
	"name":         completeFabrics,
	"fabric":       completeFabrics,
	"routing":      offer("auto", "min-hop", "up-down"),
	"lmc":          offer("0", "1", "2", "3", "4", "5", "6", "7"),
	"mkey-protect": offer("0", "1", "2", "3"),
	"route":        completeRoute,
	"sort":         offer(topcmd.SortNames()...),
	"conversation": offer("all"),
}

// offer returns a completion of fixed values.
func offer(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// offerShapes returns the completion of a flag for fabrics of one shape, or of any.
func offerShapes(flag string) cobra.CompletionFunc {
	if flag == "generate" {
		return offer(shapesOffered...)
	}
	for _, s := range shapesOffered {
		if of, ok := strings.CutPrefix(s, flag+":"); ok {
			return offer(of)
		}
	}
	return nil
}

// deviceValues returns the completion of --device: devices, or kinds where a command chooses the addresses.
func deviceValues(c *cobra.Command) cobra.CompletionFunc {
	switch {
	case c.Name() == "table":
		return offer(perfcmd.FigureKinds()...)
	case c.Name() == "fault":
		return completeDevicesInUse
	case cli.TakesKind(c):
		return offer(kinds.Names()...)
	case c.Flags().Lookup("device").DefValue == "" && c.Name() != "run":
		return completeDevicesAndKinds
	}
	return completeDevices
}

// argumentValues returns the completion of a command's arguments, or nil if it takes none.
func argumentValues(c *cobra.Command) cobra.CompletionFunc {
	if strings.HasSuffix(c.Use, "[HOST]") {
		return onlyFirst(completeHosts)
	}
	return argumentCompletions[c.Name()]
}

// argumentCompletions are the completions of arguments, by the command's name.
var argumentCompletions = map[string]cobra.CompletionFunc{
	"cp":      completeCopies,
	"devices": completeDevices,
	"do": offer("clear", "counters", "dump", "error ", "expect ", "help", "hold ", "link ", "relink ", "route ",
		"switch ", "unlink ", "wait "),
	"doctor":  onlyFirst(completeHostsAndDevices),
	"explain": completeErrors,
	"fabric":  onlyFirst(completeFiles),
	"fault":   completeFaultArguments,
	"ladder":  onlyFirst(completeFilesNamed(captureFiles...)),
	"ls":      onlyFirst(completeServers),
	"man":     onlyFirst(completeDirs),
	"pipe":    completePipe,
	"run":     completeProgram,
	"serve":   onlyFirst(completeDirs),
	"show":    onlyFirst(completeNodesAndFiles),
	"sim":     onlyFirst(completeFilesNamed(scenarioFiles...)),
	"stat":    completeStat,
	"top":     completeProcesses,
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
