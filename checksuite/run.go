// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	programs "github.com/ramjet-rdma/ramjet/checksuite/go"
)

const (
	// programArg makes this command run one of the programs in Go.
	programArg = "program"
	// patience is longer than a program's own.
	patience = 90 * time.Second
	// foundStatus is the exit status of a program that had findings.
	foundStatus = 66
)

// finding is the first line of the checker's report of a mistake.
var finding = regexp.MustCompile(`(?m)^ramjet check: ([a-z-]+): `)

// outcome is one run of a program.
type outcome struct {
	findings []string // rules
	err      error    // how it ended, if not with status 0 or foundStatus
	said     string
}

// verdict is both runs.
type verdict struct {
	program
	wrong, right outcome
}

// beProgram runs a program in Go and ends the process, if the process was started to run it.
func beProgram() {
	if len(os.Args) == 4 && os.Args[1] == programArg {
		programs.Main(os.Args[2], os.Args[3] == wrong)
	}
}

// runAll runs the programs, o.jobs at once, and returns their verdicts in the same order.
func runAll(ctx context.Context, chosen []program, dir string, o options) []verdict {
	verdicts := make([]verdict, len(chosen))
	each(len(chosen), o.jobs, func(i int) {
		p := chosen[i]
		v := &verdicts[i]
		*v = verdict{p, p.run(ctx, dir, wrong, o), p.run(ctx, dir, right, o)}
		if _, known := knownMisses[p.name()]; o.plain || known || !meet[p.rule] {
			return
		}
		for n := 1; n < tries && !v.found() && ctx.Err() == nil; n++ {
			v.wrong = p.run(ctx, dir, wrong, o)
		}
	})
	return verdicts
}

// run runs one form of a program on a device of its own.
func (p program) run(ctx context.Context, dir, form string, o options) outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var cmd *exec.Cmd
	device := address(o.device)
	if p.lang == langC {
		cmd = exec.CommandContext(ctx, p.binary(dir, form))
	} else {
		self, err := os.Executable()
		if err != nil {
			return outcome{err: err}
		}
		args := []string{self, programArg, p.base(), form}
		if !o.plain {
			args = append([]string{filepath.Join(dir, "ramjet"), "run", "--check", "--"}, args...)
		}
		cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+o.libs, "RAMJET_DEVICES="+device,
		programs.DeviceVariable+"="+device)
	if !o.plain && p.lang == langC { // as ramjet run --check=protect does
		cmd.Env = append(cmd.Env, "RAMJET_CHECK=protect", "LD_PRELOAD="+filepath.Join(o.libs, "libramjet-check.so"))
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Minute
	err := cmd.Run()
	r := outcome{said: said.String()}
	for _, m := range finding.FindAllStringSubmatch(r.said, -1) {
		r.findings = append(r.findings, m[1])
	}
	var exit *exec.ExitError
	if !o.plain && errors.As(err, &exit) && exit.ExitCode() == foundStatus {
		err = nil
	}
	r.err = err
	return r
}

// address is a device of a kind that no other run has: one of 127.64.0.0/10.
func address(kind string) string {
	n := rand.Uint32()
	return fmt.Sprintf("%s:127.%d.%d.%d", kind, 64|n>>16&63, n>>8&0xff, 1+n%254)
}

// found reports whether the checker saw the mistake.
func (v *verdict) found() bool {
	return slices.Contains(v.wrong.findings, v.rule) || slices.Contains(v.wrong.findings, alike[v.rule])
}

// broken reports whether a form of the program did not run to its end, unless its mistake is a crash.
func (v *verdict) broken() bool {
	return v.right.err != nil || v.wrong.err != nil && !crashes[v.rule]
}

// explain prints the results that were not as expected. Without the checker that is only how programs end.
func (v *verdict) explain(w io.Writer, plain bool) {
	show := func(form string, o *outcome, what string) {
		fmt.Fprintf(w, "--- %s, %s: %s\n%s", v.name(), form, what, indent(o.said))
	}
	if v.right.err != nil {
		show(right, &v.right, v.right.err.Error())
	} else if len(v.right.findings) > 0 {
		show(right, &v.right, "false alarm")
	}
	switch {
	case v.wrong.err != nil && !crashes[v.rule]:
		show(wrong, &v.wrong, v.wrong.err.Error())
	case !plain && !v.found():
		show(wrong, &v.wrong, "missed")
	}
}

func indent(s string) string {
	if s == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    ") + "\n"
}
