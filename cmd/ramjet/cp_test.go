// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cpcmd"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// serveDir starts a server of a new directory.
func serveDir(t *testing.T, args ...string) (dir, address string, server *running) {
	t.Helper()
	dir, at := t.TempDir(), testDevice(t)
	return dir, host(at), startReady(t, ": serving ", append([]string{"serve", "-v", "-d", at, dir}, args...)...)
}

// writeRandom makes a file.
func writeRandom(t *testing.T, path string, size int) {
	t.Helper()
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(b)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
}

// tree describes everything below a directory: names, permissions, times, contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(dir, name)
		fmt.Fprint(&text, below, info.Mode(), info.ModTime().UnixNano())
		if !e.IsDir() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, " %x", sha256.Sum256(b))
		}
		fmt.Fprintln(&text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestCp(t *testing.T) {
	t.Parallel()
	dir, at, server := serveDir(t)
	src := filepath.Join(t.TempDir(), "src")
	writeRandom(t, filepath.Join(src, "big"), 20<<20+7)
	writeRandom(t, filepath.Join(src, "deep/er/small"), 1)
	writeRandom(t, filepath.Join(src, "deep/empty"), 0)
	for _, err := range []error{os.Mkdir(filepath.Join(src, "nothing"), 0o755),
		os.Symlink("big", filepath.Join(src, "link")),
		os.Chtimes(filepath.Join(src, "deep"), time.Time{}, time.Unix(1_500_000_000, 5)),
		os.Chmod(filepath.Join(src, "deep/er"), 0o550)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		os.Chmod(filepath.Join(src, "deep/er"), 0o750)
		os.Chmod(filepath.Join(dir, "src/deep/er"), 0o750)
	})
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "other/deep/er"), 0o750) })
	want := tree(t, src)
	for to, name := range map[string]string{"": "src", "other": "other"} {
		r := ramjetCmd(t, "cp", "-r", "-v", "-d", testDevice(t), src, at+":"+to)
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "3 of 3 files copied and verified, 20,971,528 bytes") ||
			!strings.Contains(r.stderr, "link: left out") {
			t.Errorf("%s%s", r.stdout, r.stderr)
		}
		if got := tree(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", to, got, want)
		}
	}
	files := []string{filepath.Join(src, "big"), filepath.Join(src, "deep/empty")}
	r := ramjetCmd(t, append(append([]string{"cp", "-d", testDevice(t)}, files...), at+":7175:src/nothing/")...)
	r.wantSuccess(t)
	r = ramjetCmd(t, "cp", "-d", testDevice(t), files[0], at+":src/nothing")
	r.wantSuccess(t)
	if !strings.Contains(r.stdout, "20,971,527 bytes were there already") {
		t.Errorf("%s", r.stdout)
	}
	server.interrupt()
	r = server.wait()
	r.wantSuccess(t)
	if !strings.Contains(r.stdout, "9 files, 83,886,110 bytes from 4 connections, 0 incomplete") {
		t.Errorf("%s", r.stdout)
	}
}

// waitBegun waits until the copy of a large file into dir has begun, or is over.
func waitBegun(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(filepath.Join(dir, ".file.ramjet-partial")); err == nil && info.Size() > 64<<20 {
			return
		}
		if _, err := os.Stat(filepath.Join(dir, "file")); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the copy does not begin")
		}
	}
}

// One side is killed in the middle; the same command goes on from there.
func TestCpInterrupted(t *testing.T) {
	testrun.SkipUnlessLong(t, "copies 300 MiB four times, so that there is a middle")
	src := filepath.Join(t.TempDir(), "file")
	writeRandom(t, src, 300<<20)
	for _, victim := range []string{"client", "server"} {
		t.Run(victim, func(t *testing.T) {
			var dir, at string
			var server, client *running
			var r result
			for range 20 { // a test that is held up may find the copy done
				dir, at, server = serveDir(t)
				client = startNow(t, "cp", "-d", testDevice(t), src, at+":")
				waitBegun(t, dir)
				if victim == "client" {
					client.interrupt()
				} else {
					server.kill()
				}
				if r = client.wait(); r.status != 0 {
					break
				}
				server.kill()
				os.RemoveAll(dir) // disks have room for some copies only
			}
			if victim == "client" {
				if r.status != cli.ExitInterrupted || !strings.Contains(r.stderr, "continues where this one stopped") {
					t.Errorf("%+v", r)
				}
			} else {
				if r.status != cli.ExitFailed || !strings.Contains(r.stderr, "the connection is lost") {
					t.Errorf("%+v", r)
				}
				server.wait()
				startReady(t, ": serving ", "serve", "-d", "roce:"+at, dir)
			}
			again := ramjetCmd(t, "cp", "-d", testDevice(t), src, at+":")
			again.wantSuccess(t)
			if !strings.Contains(again.stdout, "bytes were there already") {
				t.Errorf("%s", again.stdout)
			}
			a, err := os.ReadFile(src)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%d bytes arrived as %d others, %v", len(a), len(b), err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("%v", left)
			}
		})
	}
}

// A directory that cannot be made fails once, as does each thing in it.
func TestCpDirectoryInTheWay(t *testing.T) {
	dir, at, _ := serveDir(t)
	src := filepath.Join(t.TempDir(), "src")
	writeRandom(t, filepath.Join(src, "sub", "a"), 10)
	writeRandom(t, filepath.Join(dir, "src"), 10) // a file of that name
	r := ramjetCmd(t, "cp", "-r", "-d", testDevice(t), src, at+":")
	if r.status != cli.ExitFailed || !strings.HasSuffix(r.stderr,
		"\nramjet cp: 3 of 3 files and directories were not copied\n") {
		t.Errorf("%+v", r)
	}
}

// A file that cannot be copied does not keep the others from it.
func TestCpSomeFail(t *testing.T) {
	dir, at, _ := serveDir(t)
	src := filepath.Join(t.TempDir(), "src")
	writeRandom(t, filepath.Join(src, "a"), 10)
	writeRandom(t, filepath.Join(src, "huge"), 0)
	writeRandom(t, filepath.Join(src, "z"), 10)
	if err := os.Truncate(filepath.Join(src, "huge"), 8<<40); err != nil {
		t.Skip(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "src", "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "cp", "-r", "-d", testDevice(t), src, at+":")
	if r.status != cli.ExitFailed {
		t.Errorf("status %d", r.status)
	}
	for _, text := range []string{"/a: the server says: there is a directory of this name\n",
		"/huge: the server says: no space left on device",
		"\nramjet cp: 2 of 4 files and directories were not copied\n"} {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("%q is not in\n%s", text, r.stderr)
		}
	}
	if !strings.Contains(r.stdout, "1 of 3 files copied and verified, 10 bytes") {
		t.Errorf("%s", r.stdout)
	}
}

// Nor does a directory that cannot be read: here directories whose paths are longer than the system takes.
func TestCpUnreadable(t *testing.T) {
	dir, at, _ := serveDir(t)
	src := filepath.Join(t.TempDir(), "src")
	writeRandom(t, filepath.Join(src, "a"), 10)
	writeRandom(t, filepath.Join(src, "z"), 10)
	root, err := os.OpenRoot(src)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll("long"+strings.Repeat("/"+strings.Repeat("x", 250), 17), 0o700); err != nil {
		t.Skip(err)
	}
	r := ramjetCmd(t, "cp", "-r", "-d", testDevice(t), src, at+":")
	if r.status != cli.ExitFailed || !strings.Contains(r.stderr, "name too long") ||
		!strings.Contains(r.stderr, "files and directories were not copied") {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"a", "z"} {
		if _, err := os.Stat(filepath.Join(dir, "src", name)); err != nil {
			t.Error(err)
		}
	}
}

// The listener is no server of files.
func TestCpToPipe(t *testing.T) {
	at, file := testDevice(t), filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 10)
	startPipe(t, "-l", "-v", host(at)+":7000")
	ramjetCmd(t, "cp", "-d", testDevice(t), file, host(at)+":7000:").wantError(t, cli.ExitFailed, "no reason was given")
}

func TestCpErrors(t *testing.T) {
	t.Parallel()
	dir, at, _ := serveDir(t)
	here, file := testDevice(t), filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 10)
	writeRandom(t, filepath.Join(dir, "there"), 10)
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{file}, cli.ExitUsage, "an argument is missing"},
		{[]string{file, "nowhere"}, cli.ExitUsage, `"nowhere" is not a target: give HOST:PATH`},
		{[]string{file, ":x"}, cli.ExitUsage, "is not a target"},
		{[]string{file, "[::1:x"}, cli.ExitUsage, "is not a target"},
		{[]string{file, "fd00::1:x"}, cli.ExitUsage, "IPv6 addresses in brackets"},
		{[]string{file, at + ":70000:x"}, cli.ExitUsage, "70000 is not a port"},
		{[]string{file + "s", at + ":"}, cli.ExitUsage, "no such file or directory"},
		{[]string{filepath.Dir(file), at + ":"}, cli.ExitUsage, "give --recursive (-r)"},
		{[]string{file, "no.such.host.invalid:"}, cli.ExitUsage, "no.such.host.invalid"},
		{[]string{file, file, at + ":there"}, cli.ExitUsage, "there is not a directory at the server"},
		{[]string{file, at + ":missing/"}, cli.ExitUsage, "missing/ is not a directory at the server"},
		{[]string{"-r", filepath.Dir(file), at + ":there"}, cli.ExitUsage, "there is a file at the server"},
		{[]string{file, at + ":../x"}, cli.ExitFailed, "leaves the served directory"},
		{[]string{file, at + ":/x"}, cli.ExitFailed, "is not a name below the served directory"},
		{[]string{file, at + ":7:"}, cli.ExitFailed, "no listener"},
		{[]string{"--timeout", "300ms", file, host(testDevice(t)) + ":"}, cli.ExitFailed, ":7175: "},
	} {
		t.Run(strings.Join(c.args[len(c.args)-1:], " "), func(t *testing.T) {
			ramjetCmd(t, append([]string{"cp", "-d", here}, c.args...)...).wantError(t, c.status, c.text)
		})
	}
	ramjetCmd(t, "serve").wantError(t, cli.ExitUsage, "an argument is missing: write `ramjet serve DIR`")
	ramjetCmd(t, "serve", file).wantError(t, cli.ExitUsage, "not a directory")
	ramjetCmd(t, "serve", dir, "-d", "roce:203.0.113.77").wantError(t, cli.ExitUsage,
		"203.0.113.77 is not an address of this host")
}

// With --json a server writes a line for each client and file, and one at its end.
func TestServeJSON(t *testing.T) {
	t.Parallel()
	at, dir := testDevice(t), t.TempDir()
	server := startReady(t, `"event":"serving"`, "serve", "--json", "--read", "-d", at, dir)
	file := filepath.Join(t.TempDir(), "a file")
	writeRandom(t, file, 1234)
	ramjetCmd(t, "cp", "-d", testDevice(t), file, host(at)+":").wantSuccess(t)
	ramjetCmd(t, "cp", "-d", testDevice(t), host(at)+":a file", t.TempDir()).wantSuccess(t)
	server.interrupt()
	r := server.wait()
	r.wantSuccess(t)
	var events []string
	for line := range strings.Lines(r.stdout) {
		var e struct {
			cli.JSONHeader
			Event   string `json:"event"`
			Address string `json:"address"`
			Peer    string `json:"peer"`
			Name    string `json:"name"`
			Size    int64  `json:"size_bytes"`
			cpcmd.Counts
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e.Event)
		file := e.Event == "received" || e.Event == "sent"
		switch {
		case e.Version == "" || e.Time.IsZero() || len(e.Devices) != 1,
			e.Event == "serving" && !strings.HasPrefix(e.Address, host(at)+":"),
			file && (e.Name != "a file" || e.Size != 1234 || e.Peer == ""),
			e.Event == "ended" && e.Counts != cpcmd.Counts{Clients: 2, Received: 1, ReceivedBytes: 1234, Sent: 1,
				SentBytes: 1234}:
			t.Errorf("%s", line)
		}
	}
	if got := strings.Join(events, " "); got != "serving connected received connected sent ended" {
		t.Error(got)
	}
}
