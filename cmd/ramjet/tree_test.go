// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandsByPath returns every command that does something, by the words after ramjet on its command line.
func commandsByPath() map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	root := newRootCmd(&bytes.Buffer{})
	eachCommand(root, func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if path != "" && !c.Hidden && (!c.HasSubCommands() || path == "fabric") {
			all[path] = c
		}
	})
	return all
}

// withoutJSON are the commands that neither measure nor list, or write another form for programs to read, and why.
var withoutJSON = map[string]string{
	"completion bash":       "writes a script",
	"completion fish":       "writes a script",
	"completion powershell": "writes a script",
	"completion zsh":        "writes a script",
	"dash":                  "serves a page",
	"export":                "writes Prometheus's format",
	"fabric":                "runs a fabric; fabric show --json lists it",
	"fabric do":             "is the console of a fabric; fabric show --json lists it",
	"kubelet":               "runs ramjet-kubelet",
	"man":                   "writes pages",
	"nvme":                  "runs ramjet-nvme",
	"run":                   "runs another program",
	"smb":                   "runs ramjet-smb",
	"top":                   "a screen; stat --json --watch has its figures",
}

// Every command that measures or lists has --json.
func TestEveryCommandHasJSON(t *testing.T) {
	all := commandsByPath()
	for path, c := range all {
		why, without := withoutJSON[path]
		switch flag := c.Flags().Lookup("json"); {
		case flag == nil && !without:
			t.Errorf("ramjet %s has no --json", path)
		case flag != nil && without:
			t.Errorf("ramjet %s has --json, although it %s", path, why)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(withoutJSON)) {
		if all[path] == nil {
			t.Errorf("there is no ramjet %s", path)
		}
	}
}

// freeForm are the flags with values that cannot be listed: numbers, texts, times. A flag of a single command has its
// path.
var freeForm = map[string]string{
	"chunk": "a size", "size": "a size", "sizes": "sizes", "stride": "a number of bytes",
	"count": "a number", "cq-mod": "a number", "gid-idx": "a row", "inline-size": "a number", "iters": "a number",
	"limit": "a number", "num-qp": "a number", "outs": "a number", "peers": "numbers", "post-list": "a number",
	"priority":    "a number",
	"qp":          "a number",
	"queue-pairs": "a number", "runs": "a number", "rx-depth": "a number", "seed": "a number", "series": "a number",
	"spare": "a number", "tx-depth": "a number", "width": "a number", "mkey": "a number", "port": "a port",
	"duration": "a time", "for": "a time", "from": "a time", "interval": "a time", "mkey-lease": "a time",
	"timeout": "a time", "to": "a time", "watch": "a time", "fabric host": "a number",
	"ladder host": "a host of the capture",
	"ibsim":       "a name to choose", "join": "a cable",
	"only": "a text", "log-filter": "a text", "check": "words and files",
	"at": "a node of a scenario",
}

// Completion offers fitting values for each flag and each argument.
func TestEveryValueHasCompletion(t *testing.T) {
	used := map[string]bool{}
	takesNone := map[string]bool{"completion": true, "dash": true, "demo": true, "export": true, "kubelet": true,
		"notification": true, "nvme": true, "ping": true, "registration": true, "smb": true, "table": true}
	for path, c := range commandsByPath() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			_, complete := c.GetFlagCompletionFunc(f.Name)
			if _, files := f.Annotations[cobra.BashCompFilenameExt]; files {
				complete = true
			}
			name := f.Name
			if _, ok := freeForm[path+" "+f.Name]; ok {
				name = path + " " + f.Name
			}
			_, free := freeForm[name]
			used[name] = true
			if complete == free {
				t.Errorf("ramjet %s --%s: completed: %v, and in the list of those that cannot be: %v", path, f.Name,
					complete, free)
			}
		})
		if parent := c.Parent().Name(); takesNone[parent] || takesNone[c.Name()] {
			if c.ValidArgsFunction != nil && parent != "completion" {
				t.Errorf("ramjet %s takes no arguments, but completes them", path)
			}
			continue
		}
		if c.ValidArgsFunction == nil {
			t.Errorf("ramjet %s does not complete its arguments", path)
		}
	}
	for name := range freeForm {
		if !used[name] {
			t.Errorf("no command has --%s", name)
		}
	}
}

// bareTimes are the flags that take a number without a unit for seconds, too, and why.
var bareTimes = map[string]string{
	"perf read bw duration": "perftest's -D", "perf read lat duration": "perftest's -D",
	"perf send bw duration": "perftest's -D", "perf send lat duration": "perftest's -D",
	"perf write bw duration": "perftest's -D", "perf write lat duration": "perftest's -D",
	"perf atomic bw duration": "perftest's -D", "perf atomic lat duration": "perftest's -D",
	"perf table duration": "perftest's -D",
	"ladder from":         "ladders and Wireshark show seconds without a unit", "ladder to": "as --from",
}

// Every flag with a time takes it as Go writes it, and without a unit only where others' tools set the rule.
func TestEveryTimeHasAUnit(t *testing.T) {
	for path, c := range commandsByPath() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			_, time := f.Value.(*cli.WaitTime)
			_, perf := f.Value.(*cli.Seconds)
			if said := freeForm[f.Name] == "a time"; said != (time || perf) {
				t.Errorf("ramjet %s --%s is a %T", path, f.Name, f.Value)
			}
			if !time && !perf {
				return
			}
			if err := f.Value.Set("5s"); err != nil {
				t.Errorf("ramjet %s --%s 5s: %v", path, f.Name, err)
			}
			_, bare := bareTimes[path+" "+f.Name]
			if err := f.Value.Set("5"); (err == nil) != bare {
				t.Errorf("ramjet %s --%s 5: %v", path, f.Name, err)
			}
		})
	}
}

// The help of every command has examples, and words for the values of flags: a number, not an int.
func TestEveryHelpIsForPeople(t *testing.T) {
	for path, c := range commandsByPath() {
		if c.Example == "" && c.Parent().Name() != "completion" {
			t.Errorf("ramjet %s has no example", path)
		}
		for line := range strings.Lines(c.Example) {
			if len(line) > cli.HelpWidth+1 {
				t.Errorf("ramjet %s: an example is too wide: %s", path, line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch name, _ := pflag.UnquoteUsage(f); name {
			case "int", "uint", "uint8", "uint16", "uint64", "string", "strings", "duration":
				t.Errorf("ramjet %s --%s: its value is called %s", path, f.Name, name)
			}
		})
	}
}
