// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// stage is one set of tests.
type stage struct {
	name string // as reports have it
	pkg  string // the folder of the tests
	args []string
}

const (
	scripts     = "scripts"
	simulation  = "simulation"
	conformance = "conformance"
)

const simnet = "internal/testkit/simnet"

// stagesOf returns the tests that a mutant of a package has to pass, the cheapest first.
func stagesOf(pkg string, seeds int) []stage {
	own := stage{scripts, pkg, nil}
	sim := func(args ...string) stage {
		args = append([]string{"-test.run=^(TestSeeds|TestFaults|TestStats|TestReordering)$", "-seeds=" + strconv.Itoa(seeds)}, args...)
		return stage{simulation, simnet, args}
	}
	suite := func(kind string) stage {
		return stage{conformance, simnet, []string{"-test.run=^TestConformance" + kind + "$"}}
	}
	switch pkg {
	case "internal/engine/ibta":
		return []stage{own, sim(), suite("RoCE")}
	case "internal/engine/rdmap":
		return []stage{own, sim(), suite("IWARP")}
	case "internal/engine/local": // real memory has no virtual time
		return []stage{own, {conformance, "shm", []string{"-test.run=^TestConformance"}}}
	case "internal/engine/ibcm":
		return []stage{own, sim("-scenario=cm"), suite("RoCE")}
	case "internal/engine/link":
		return []stage{own, sim("-on=infiniband"), suite("InfiniBand")}
	case "internal/engine/rsocket":
		return []stage{own, sim("-scenario=rnet")}
	}
	return []stage{own}
}

// Verdicts on a mutant.
const (
	killed      = "killed"
	survived    = "survived"
	timedOut    = "timed out"
	notCompiled = "did not compile"
)

// lab tests mutants.
type lab struct {
	root   string // of the module
	tmp    string
	factor float64 // how many times as long as the original a mutant may take
	stages func(pkg string) []stage
	took   map[string]time.Duration // by the original, for each stage
}

// try tests one mutant: it returns the verdict, by which stage, and what that printed.
func (l *lab) try(ctx context.Context, m *mutant) (verdict, by, output string, err error) {
	source, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", "", "", err
	}
	changed, overlay := filepath.Join(l.tmp, "mutant.go"), filepath.Join(l.tmp, "overlay.json")
	if err := os.WriteFile(changed, m.apply(source), 0o666); err != nil {
		return "", "", "", err
	}
	instead, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(l.root, filepath.FromSlash(m.file)): changed}})
	if err != nil {
		return "", "", "", err
	}
	if err := os.WriteFile(overlay, instead, 0o666); err != nil {
		return "", "", "", err
	}
	built := ""
	for _, s := range l.stages(m.pkg()) {
		if err := l.measure(ctx, s); err != nil {
			return "", "", "", err
		}
		if built != s.pkg {
			if out, err := l.build(ctx, s.pkg, "-overlay="+overlay); err != nil {
				return notCompiled, "", out, ctx.Err()
			}
			built = s.pkg
		}
		out, err := l.run(ctx, s, l.bound(s))
		switch {
		case ctx.Err() != nil:
			return "", "", "", ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return timedOut, s.name, "", nil
		case err != nil:
			return killed, s.name, out, nil
		}
	}
	return survived, "", "", nil
}

// bound is how long a mutant may take in a stage. The machine may be busier than it was with the
// original.
func (l *lab) bound(s stage) time.Duration {
	return 20*time.Second + time.Duration(l.factor*float64(l.took[fmt.Sprint(s)]))
}

// measure runs a stage on the original, which must pass it.
func (l *lab) measure(ctx context.Context, s stage) error {
	if _, ok := l.took[fmt.Sprint(s)]; ok {
		return nil
	}
	if out, err := l.build(ctx, s.pkg); err != nil {
		return fmt.Errorf("the tests of %s do not compile without a change: %w\n%s", s.pkg, err, out)
	}
	began := time.Now()
	out, err := l.run(ctx, s, 10*time.Minute)
	if err != nil {
		return fmt.Errorf("%s %s fail without a change: %w\n%s", s.name, s.pkg, err, out)
	}
	l.took[fmt.Sprint(s)] = time.Since(began)
	return nil
}

// build compiles the tests of a package.
func (l *lab) build(ctx context.Context, pkg string, flags ...string) (string, error) {
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", filepath.Join(l.tmp, "tests")}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs the tests that were compiled last. A mutant that takes memory without end is stopped by the
// limit on it.
func (l *lab) run(ctx context.Context, s stage, within time.Duration) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	args := append([]string{"-c", `ulimit -v 4000000; exec "$0" "$@"`, filepath.Join(l.tmp, "tests"), "-test.failfast"}, s.args...)
	cmd := exec.CommandContext(bounded, "sh", args...)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(s.pkg))
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if bounded.Err() != nil {
		err = bounded.Err()
	}
	return lastLines(out.String(), 30), err
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
