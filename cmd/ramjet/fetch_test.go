// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cpcmd"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Files that were copied to a server come back unchanged.
func TestCpFetches(t *testing.T) {
	t.Parallel()
	dir, at, server := serveDir(t, "--read")
	src := filepath.Join(dir, "src")
	writeRandom(t, filepath.Join(src, "big"), 20<<20+7)
	writeRandom(t, filepath.Join(src, "deep/er/small"), 1)
	writeRandom(t, filepath.Join(src, "deep/empty"), 0)
	for _, err := range []error{os.Mkdir(filepath.Join(src, "nothing"), 0o755),
		os.Symlink("big", filepath.Join(src, "link")),
		os.Chtimes(filepath.Join(src, "deep"), time.Time{}, time.Unix(1_500_000_000, 5))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want, to := tree(t, src), t.TempDir()
	for target, name := range map[string]string{to: "src", filepath.Join(to, "other"): "other"} {
		r := ramjetCmd(t, "cp", "-r", "-v", "-d", testDevice(t), at+":src", target)
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "3 of 3 files copied and verified, 20,971,528 bytes") ||
			!strings.Contains(r.stderr, "src/link: left out") {
			t.Errorf("%s%s", r.stdout, r.stderr)
		}
		if got := tree(t, filepath.Join(to, name)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	r := ramjetCmd(t, "cp", "-d", testDevice(t), at+":7175:src/big", at+":src/deep/er/small", to)
	r.wantSuccess(t)
	r = ramjetCmd(t, "cp", "-d", testDevice(t), at+":src/big", filepath.Join(to, "big"))
	r.wantSuccess(t)
	if !strings.Contains(r.stdout, "20,971,527 bytes were there already") {
		t.Errorf("%s", r.stdout)
	}
	all := t.TempDir()
	ramjetCmd(t, "cp", "-r", "-d", testDevice(t), at+":", all).wantSuccess(t)
	if got := tree(t, filepath.Join(all, "src")); got != want {
		t.Errorf("all of it: got\n%s\nwant\n%s", got, want)
	}
	server.interrupt()
	r = server.wait()
	r.wantSuccess(t)
	if !strings.Contains(r.stdout,
		"0 files, 0 bytes from 5 connections, 0 incomplete; 12 files, 104,857,639 bytes sent") {
		t.Errorf("%s", r.stdout)
	}
}

func TestCpFetchErrors(t *testing.T) {
	t.Parallel()
	dir, at, _ := serveDir(t, "--read-only")
	_, closed, _ := serveDir(t)
	here, to := testDevice(t), t.TempDir()
	writeRandom(t, filepath.Join(dir, "there"), 10)
	writeRandom(t, filepath.Join(dir, "sub/file"), 10)
	file := filepath.Join(to, "file")
	writeRandom(t, file, 10)
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{at + ":none", to}, cli.ExitFailed, "no such file or directory"},
		{[]string{at + ":sub", to}, cli.ExitUsage, "sub is a directory: give --recursive (-r)"},
		{[]string{at + ":", to}, cli.ExitUsage, "give --recursive (-r)"},
		{[]string{at + ":there", at + ":sub/file", filepath.Join(to, "new")}, cli.ExitUsage,
			"new is not a directory here"},
		{[]string{at + ":there", to + "/missing/"}, cli.ExitUsage, "missing/ is not a directory here"},
		{[]string{at + ":there", to + "/missing/name"}, cli.ExitUsage, "no such file or directory"},
		{[]string{"-r", at + ":sub", file}, cli.ExitUsage, "is a file here, and sub a directory"},
		{[]string{"-r", at + ":", filepath.Join(to, "new")}, cli.ExitUsage, "new is not a directory here"},
		{[]string{at + ":../x", to}, cli.ExitFailed, "leaves the served directory"},
		{[]string{at + ":/etc/passwd", to}, cli.ExitFailed, "is not a name below the served directory"},
		{[]string{at + ":there", closed + ":x", to}, cli.ExitUsage, "fetch from one at a time"},
		{[]string{closed + ":there", to}, cli.ExitFailed, "start it with --read"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			ramjetCmd(t, append([]string{"cp", "-d", here}, c.args...)...).wantError(t, c.status, c.text)
		})
	}
	r := ramjetCmd(t, "cp", "-d", here, file, at+":")
	if r.status != cli.ExitFailed || !strings.Contains(r.stderr, "--read-only") {
		t.Errorf("%+v", r)
	}
}

func TestLs(t *testing.T) {
	t.Parallel()
	dir, at, _ := serveDir(t, "--read")
	writeRandom(t, filepath.Join(dir, "file"), 1234)
	writeRandom(t, filepath.Join(dir, "sub/inner"), 10)
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	strange := "sub/\x1b[31m"
	if runtime.GOOS != "windows" {
		writeRandom(t, filepath.Join(dir, strange), 1)
	}
	at0 := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "file"), at0, at0); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		at + ":":         "file\nlink@\nsub/\n",
		at + ":sub":      "?[31m\ninner\n",
		at + ":sub/":     "?[31m\ninner\n",
		at + ":file":     "file\n",
		"-l " + at + ":": "-rw-r-----  1234  " + at0.Local().Format(time.DateTime) + "  file\n",
	} {
		r := ramjetCmd(t, append([]string{"ls", "-d", testDevice(t)}, strings.Fields(args)...)...)
		r.wantSuccess(t)
		if r.stdout != want && !(strings.HasPrefix(args, "-l") && strings.HasPrefix(r.stdout, want)) {
			t.Errorf("%s: %q, want %q", args, r.stdout, want)
		}
	}
	var copied struct {
		Files []cpcmd.CopiedFile
		Bytes int64 `json:"size_bytes"`
	}
	got := ramjetCmd(t, "cp", "--json", "-d", testDevice(t), at+":file", t.TempDir())
	got.wantSuccess(t)
	if err := json.Unmarshal([]byte(got.stdout), &copied); err != nil || copied.Bytes != 1234 ||
		len(copied.Files) != 1 || len(copied.Files[0].SHA256) != 64 || copied.Files[0].Bytes != 1234 {
		t.Errorf("%v: %s", err, got.stdout)
	}
	r := ramjetCmd(t, "ls", "--json", "-d", testDevice(t), at+":")
	r.wantSuccess(t)
	var in struct{ Entries []cpcmd.Entry }
	err := json.Unmarshal([]byte(r.stdout), &in)
	all := in.Entries
	if err != nil || len(all) != 3 || all[0] != (cpcmd.Entry{Name: "file", Kind: "file", Bytes: 1234, Mode: "0640",
		Modified: at0}) || all[2].Kind != "directory" {
		t.Errorf("%v: %s", err, r.stdout)
	}
	ramjetCmd(t, "ls", "-d", testDevice(t), at+":none").wantError(t, cli.ExitFailed, "no such file or directory")
	ramjetCmd(t, "ls", "-d", testDevice(t), at+":../x").wantError(t, cli.ExitFailed, "leaves the served directory")
	ramjetCmd(t, "ls", "nowhere").wantError(t, cli.ExitUsage, "is not a target")
}
