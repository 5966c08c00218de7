// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLocations(t *testing.T) {
	for in, want := range map[string]location{
		"//host/share":            {"host", "share", ""},
		"//host:7/share/":         {"host:7", "share", ""},
		"//192.0.2.9/files/a/b/":  {"192.0.2.9", "files", "a/b"},
		"//h/s/../../x/./y":       {"h", "s", "x/y"},
		"//[2001:db8::9]:445/s/f": {"[2001:db8::9]:445", "s", "f"},
	} {
		if got, err := parseLocation(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "/", "//", "//host", "//host/", "///share", "host/share", `\\host\share`} {
		if l, err := parseLocation(in); err == nil {
			t.Errorf("%q is %+v", in, l)
		}
	}
}

// The command line has to say which clients may connect, one way or the other.
func TestAllowed(t *testing.T) {
	for _, o := range []gatewayOptions{
		{},
		{allowFlags: []string{"192.0.2.7"}, anyClient: true},
		{allowFlags: []string{"host"}},
		{allowFlags: []string{"192.0.2.0/33"}},
	} {
		if _, err := o.allowed(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if f, err := (&gatewayOptions{anyClient: true}).allowed(); f != nil || err != nil {
		t.Errorf("any client: %v", err)
	}
	f, err := (&gatewayOptions{allowFlags: []string{"192.0.2.0/24", "2001:db8::7"}}).allowed()
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]bool{"192.0.2.200:1": true, "192.0.3.1:1": false, "[2001:db8::7]:1": true,
		"[2001:db8::8]:1": false, "[::ffff:192.0.2.1]:1": true} {
		if f(netip.MustParseAddrPort(peer)) != want {
			t.Errorf("%s: %t", peer, !want)
		}
	}
}

// A copy that fails leaves the file that was there.
func TestSave(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := save(name, strings.NewReader("whole")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := save(name, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
	if list, _ := os.ReadDir(filepath.Dir(name)); len(list) != 1 {
		t.Errorf("%v are left", list)
	}
}

// Every command has help, and says what is wrong with its arguments.
func TestCommands(t *testing.T) {
	for _, args := range [][]string{{"gateway"}, {"ls"}, {"get"}, {"put"}} {
		var out bytes.Buffer
		c := newCommand()
		c.SetArgs(append(args, "--help"))
		c.SetOut(&out)
		if err := c.Execute(); err != nil || !strings.Contains(out.String(), "Examples:") {
			t.Errorf("%v: %v, %s", args, err, out.String())
		}
		c = newCommand()
		c.SetArgs(append(args, "-d"))
		at, err := c.ExecuteC()
		if status := report(&out, at, err); status != 2 ||
			!strings.Contains(out.String(), "--help` shows what it takes") {
			t.Errorf("%v without what it needs: %d, %s", args, status, out.String())
		}
	}
}

// A wrong command line is reported before anything is opened, by the status of usage errors.
func TestUsage(t *testing.T) {
	for line, says := range map[string]string{
		"ls -d shm:x":                                          "accepts 1 arg(s), received 0",
		"ls -d shm:x host/share":                               "write //SERVER/SHARE/PATH",
		"ls //host/share":                                      `"device" not set`,
		"get -d shm:x //host":                                  "write //SERVER/SHARE/PATH",
		"put -d shm:x file //host/":                            "write //SERVER/SHARE/PATH",
		"gateway -d shm:x --server h":                          "say who may connect",
		"gateway -d shm:x --server h --allow me":               "write an address or a prefix",
		"gateway -d shm:x --server h --any-client --clients 0": "at least 1",
		"gateway -d shm:x --any-client":                        `"server" not set`,
		"ls -d shn:127.0.0.1 //host/share":                     "did you mean shm:127.0.0.1?",
		"ls -d shm:127.0.0.1 //127.0.0.1:port/share":           "the port is a number",
		"gateway -d shn:127.0.0.1 --server h --any-client":     "did you mean shm:127.0.0.1?",
	} {
		c := newCommand()
		c.SetArgs(strings.Fields(line))
		at, err := c.ExecuteC()
		var to bytes.Buffer
		if status := report(&to, at, err); status != 2 || !strings.Contains(to.String(), says) {
			t.Errorf("%s: status %d, %s", line, status, &to)
		}
	}
}
