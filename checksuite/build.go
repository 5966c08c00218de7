// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// module is the path of this repository's module.
const module = "github.com/ramjet-rdma/ramjet"

// build builds into dir the command ramjet for the programs in Go, and the programs in C, wrong and right. It builds
// the libraries, too, and sets their folder in o, unless o names it.
func build(ctx context.Context, chosen []program, dir string, o *options) error {
	if !o.plain && slices.ContainsFunc(chosen, func(p program) bool { return p.lang == langGo }) {
		if _, err := output(ctx, "go", "build", "-o", filepath.Join(dir, "ramjet"), module+"/cmd/ramjet"); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(chosen, func(p program) bool { return p.lang == langC }) {
		return nil
	}
	if o.libs == "" {
		o.libs = filepath.Join(dir, "libs")
		if err := buildLibraries(ctx, o.libs); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(o.libs, "libibverbs.so.1")); err != nil {
		return fmt.Errorf("-libs: %w", err)
	}
	c, err := fs.Sub(sources, "c")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, c); err != nil {
		return err
	}
	common := filepath.Join(dir, "suite.o")
	if err := compile(ctx, "-c", filepath.Join(dir, "suite.c"), "-o", common); err != nil {
		return err
	}
	failed := make([]error, len(chosen))
	each(len(chosen), o.jobs, func(i int) {
		if p := chosen[i]; p.lang == langC {
			failed[i] = errors.Join(p.compile(ctx, dir, common, wrong, o.libs),
				p.compile(ctx, dir, common, right, o.libs))
		}
	})
	return errors.Join(failed...)
}

// buildLibraries builds the libraries for C programs.
func buildLibraries(ctx context.Context, dir string) error {
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	_, err = output(ctx, filepath.Join(strings.TrimSpace(root), "cabi", "build.sh"), dir)
	return err
}

// compile compiles one form of a program in C.
func (p program) compile(ctx context.Context, dir, common, form, libs string) error {
	mistake := "-DMISTAKE=0"
	if form == wrong {
		mistake = "-DMISTAKE=1"
	}
	return compile(ctx, mistake, filepath.Join(dir, p.base()+".c"), common, "-o", p.binary(dir, form),
		filepath.Join(libs, "librdmacm.so.1"), filepath.Join(libs, "libibverbs.so.1"))
}

// each calls f for 0 to n-1, jobs of them at once.
func each(n, jobs int, f func(i int)) {
	slots := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// binary is the path of a compiled program.
func (p program) binary(dir, form string) string { return filepath.Join(dir, p.base()+"."+form) }

func compile(ctx context.Context, args ...string) error {
	flags := []string{"-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread"}
	_, err := output(ctx, cmp.Or(os.Getenv("CC"), "cc"), append(flags, args...)...)
	return err
}

// output runs a command; an error has its output.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return string(out), nil
}
