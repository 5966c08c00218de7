// SPDX-License-Identifier: Apache-2.0

//go:build linux

// The command checksuite measures the checker: it runs small programs, each with a mistake and beside it the correct
// program that looks like it, and prints the checker's findings, the mistakes that it missed, and its false reports.
// README.md says how the programs are written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// options are the flags of the command.
type options struct {
	device   string
	libs     string
	jobs     int
	plain    bool
	verbose  bool
	markdown bool
}

// devices are the kinds of device that the programs are for.
var devices = []string{"roce", "shm"}

func main() {
	beProgram()
	var o options
	only := flag.String("run", "", "run programs only whose name matches the `REGEXP`")
	flag.StringVar(&o.device, "device", "roce", "`KIND` of device of the programs: roce, shm")
	flag.StringVar(&o.libs, "libs", "", "`DIR` of the libraries for C programs; empty: build them")
	flag.IntVar(&o.jobs, "j", runtime.NumCPU(), "programs that run at once")
	flag.BoolVar(&o.plain, "plain", false, "run without the checker, and see only that each program ends")
	flag.BoolVar(&o.verbose, "v", false, "print what each program said that was not as it should be")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table in Markdown")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q: there are flags only", flag.Arg(0))
	}
	if err == nil && !slices.Contains(devices, o.device) {
		err = fmt.Errorf("-device %q: the programs are for %s", o.device, strings.Join(devices, " and "))
	}
	if err == nil && o.jobs < 1 {
		err = errors.New("-j: at least 1")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "checksuite:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	good, err := suite(ctx, match, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checksuite:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}

// suite runs the programs whose names match and prints the table. It reports whether all was as it should be.
func suite(ctx context.Context, match *regexp.Regexp, o options) (bool, error) {
	all, err := list()
	if err != nil {
		return false, err
	}
	var chosen []program
	for _, p := range all {
		if match.MatchString(p.name()) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no program's name matches %v", match)
	}
	dir, err := os.MkdirTemp("", "checksuite")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, chosen, dir, &o); err != nil {
		return false, err
	}
	verdicts := runAll(ctx, chosen, dir, o)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if o.verbose || o.plain {
		for _, v := range verdicts {
			v.explain(os.Stdout, o.plain)
		}
	}
	if o.plain {
		return printPlain(os.Stdout, verdicts), nil
	}
	return printTable(os.Stdout, verdicts, o.markdown), nil
}
