// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// lab builds and tests mutants.
type lab struct {
	root   string // of the module
	tmp    string
	factor float64 // how many times as long as the original a mutant may take
	stages func(pkg string) []stage
	bounds map[string]bound  // by stage
	tests  map[string]string // built tests with all mutants, by package
	number map[string]int    // of mutants in schemas, by id
}

// bound is the bound on a mutant's time and memory in a stage. Time of the processor counts, because the machine may be
// busy; the other bound is for mutants that wait without end.
type bound struct {
	cpu  int // seconds
	wall time.Duration
}

// prepare makes the schemas of all mutants that can be in one. It returns the mutants that do not compile.
func (l *lab) prepare(ctx context.Context, sample []*mutant) (bad map[string]string, err error) {
	bad, l.number, l.tests = make(map[string]string), make(map[string]int), make(map[string]string)
	byNumber := make(map[int]*mutant)
	packages := make(map[string]bool)
	for i, m := range sample {
		packages[m.pkg()] = true
		if m.body.end > 0 {
			l.number[m.id()] = i + 1
			byNumber[i+1] = m
		}
	}
	for {
		if err := l.writeSchemas(sample); err != nil {
			return nil, err
		}
		args := []string{"build", "-gcflags=-e", "-overlay=" + l.overlay()}
		for pkg := range packages {
			args = append(args, "./"+pkg)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = l.root
		out, err := cmd.CombinedOutput()
		if err == nil {
			return bad, nil
		}
		found := false
		for _, match := range mutantError.FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.Atoi(match[1])
			if m := byNumber[n]; m != nil {
				found = true
				bad[m.id()] = match[0]
				delete(l.number, m.id())
			}
		}
		if !found {
			return nil, cmp.Or(ctx.Err(), fmt.Errorf("the mutants do not compile: %w\n%s", err, out))
		}
	}
}

var mutantError = regexp.MustCompile(`mutant(\d+)\.go:.*`)

func (l *lab) overlay() string { return filepath.Join(l.tmp, "schemas.json") }

// writeSchemas writes the schemas of the mutants that have a number.
func (l *lab) writeSchemas(sample []*mutant) error {
	files := make(map[string][]numbered)
	for _, m := range sample {
		if n := l.number[m.id()]; n > 0 {
			files[m.file] = append(files[m.file], numbered{m, n})
		}
	}
	replace := make(map[string]string)
	write := func(file string, b []byte) error {
		to := filepath.Join(l.tmp, strings.ReplaceAll(file, "/", "_"))
		replace[l.path(file)] = to
		return os.WriteFile(to, b, 0o666)
	}
	for file, list := range files {
		source, err := os.ReadFile(l.path(file))
		if err != nil {
			return err
		}
		schema, name, err := schemaOf(source, list)
		if err != nil {
			return err
		}
		if err := errors.Join(write(file, schema),
			write(path.Dir(file)+"/zz_selected.go", selectorFile(name))); err != nil {
			return err
		}
	}
	return writeOverlay(l.overlay(), replace)
}

func writeOverlay(name string, replace map[string]string) error {
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o666)
}

func (l *lab) path(file string) string { return filepath.Join(l.root, filepath.FromSlash(file)) }

// try tests one mutant: it returns the verdict, the stage that gave it, and its output.
func (l *lab) try(ctx context.Context, m *mutant) (verdict, by, output string, err error) {
	for _, s := range l.stages(m.pkg()) {
		if err := l.measure(ctx, s); err != nil {
			return "", "", "", err
		}
		tests, env := l.tests[s.pkg], fmt.Sprint(selector, "=", l.number[m.id()])
		if l.number[m.id()] == 0 {
			var out string
			if tests, out, err = l.buildAlone(ctx, s.pkg, m); err != nil {
				return notCompiled, "", out, ctx.Err()
			}
		}
		out, _, err := l.run(ctx, s, tests, env, l.bounds[fmt.Sprint(s)])
		switch {
		case ctx.Err() != nil:
			return "", "", "", ctx.Err()
		case errors.Is(err, errTooLong):
			return timedOut, s.name, "", nil
		case err != nil:
			return killed, s.name, out, nil
		}
	}
	return survived, "", "", nil
}

// buildAlone builds the tests of a package with one mutant.
func (l *lab) buildAlone(ctx context.Context, pkg string, m *mutant) (tests, output string, err error) {
	source, err := os.ReadFile(l.path(m.file))
	if err != nil {
		return "", "", err
	}
	changed, overlay := filepath.Join(l.tmp, "alone.go"), filepath.Join(l.tmp, "alone.json")
	if err := errors.Join(os.WriteFile(changed, m.apply(source), 0o666),
		writeOverlay(overlay, map[string]string{l.path(m.file): changed})); err != nil {
		return "", "", err
	}
	tests = filepath.Join(l.tmp, "alone.test")
	output, err = l.build(ctx, pkg, overlay, tests)
	return tests, output, err
}

// measure builds a stage's tests and runs them with the original, which must pass.
func (l *lab) measure(ctx context.Context, s stage) error {
	if l.tests[s.pkg] == "" {
		tests := filepath.Join(l.tmp, strings.ReplaceAll(s.pkg, "/", "_")+".test")
		if out, err := l.build(ctx, s.pkg, l.overlay(), tests); err != nil {
			return fmt.Errorf("the tests of %s do not compile without a change: %w\n%s", s.pkg, err, out)
		}
		l.tests[s.pkg] = tests
	}
	key := fmt.Sprint(s)
	if _, ok := l.bounds[key]; ok {
		return nil
	}
	began := time.Now()
	out, cpu, err := l.run(ctx, s, l.tests[s.pkg], selector+"=0", bound{600, 20 * time.Minute})
	if err != nil {
		return fmt.Errorf("%s %s fail without a change: %w\n%s", s.name, s.pkg, err, out)
	}
	l.bounds[key] = bound{5 + int(l.factor*cpu.Seconds()),
		time.Minute + time.Duration(l.factor*float64(time.Since(began)))}
	return nil
}

// build builds the tests of a package.
func (l *lab) build(ctx context.Context, pkg, overlay, tests string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", tests,
		"./"+pkg)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var errTooLong = errors.New("it took too long")

// run runs tests, and returns the end of their output and the processor's time. A mutant that takes time or
// memory without end is stopped.
func (l *lab) run(ctx context.Context, s stage, tests, env string, within bound) (string, time.Duration, error) {
	bounded, cancel := context.WithTimeout(ctx, within.wall)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -v 8000000; ulimit -t %d; exec "$0" "$@"`, within.cpu)
	cmd := exec.CommandContext(bounded, "sh", append([]string{"-c", limits, tests, "-test.failfast"}, s.args...)...)
	cmd.Dir, cmd.Env = l.path(s.pkg), append(os.Environ(), env)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if bounded.Err() != nil || err != nil && cpu >= time.Duration(within.cpu)*time.Second {
		err = errTooLong
	}
	return lastLines(out.String(), 30), cpu, err
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
