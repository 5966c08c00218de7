// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// twoRoutes is two switches with two cables between them, in a file that includes another one.
const twoRoutes = `
Switch 4 "west"
[1] "host-w"[1]
[2] "east"[2]
[3] "east"[3]

include "rest.net"
Hca 1 "host-w"
Hca 1 "host-e"
`

const restOfTwoRoutes = `
Switch 4 "east"
[1] "host-e"[1]
`

// writeFiles writes files into a directory, and returns the path of the first.
func writeFiles(t *testing.T, nameText ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(nameText); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, nameText[i]), []byte(nameText[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, nameText[0])
}

// fabricName returns a name that no other test's fabric has.
func fabricName(t *testing.T) string {
	return fmt.Sprintf("%s-%d", regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(t.Name(), "-"), os.Getpid())
}

func TestFabricUsage(t *testing.T) {
	t.Parallel()
	topology := writeFiles(t, "two.net", twoRoutes, "rest.net", restOfTwoRoutes)
	wrong := writeFiles(t, "wrong.net", "Switch 4 \"s\"\n[9] \"h\"[1]\n\nHca 1 \"h\"\n")
	noInclude := writeFiles(t, "alone.net", twoRoutes)
	for _, c := range []struct {
		args []string
		text string
	}{
		{nil, "name a topology file, or a shape such as --fat-tree 4,2"},
		{[]string{"--star", "2", "--ring", "4,2"}, "--star and --ring: a fabric is made of one of them"},
		{[]string{topology, "--star", "2"}, "a fabric is made of one of them"},
		{[]string{"--star", "0"}, "star"},
		{[]string{"--fat-tree", "four"}, `"four" is no number`},
		{[]string{"--generate", "cube:3"}, `"cube:3" is none that can be made`},
		{[]string{topology, "--spare", "2"}, "--spare is for shapes"},
		{[]string{"--star", "2", "--spare", "-1"}, "cannot have -1 more"},
		{[]string{"--star", "2", "--spare", "253"}, "0 to 252 are possible"},
		{[]string{"--star", "2", "--priority", "16"}, "--priority 16: give 0 to 15"},
		{[]string{"--star", "2", "--priority", "3", "--no-manager"}, "give one of them"},
		{[]string{"--star", "2", "--no-manager", "--lmc", "1"}, "--lmc is the built-in manager's"},
		{[]string{"--star", "2", "--lmc", "8"}, "--lmc 8: give 0 to 7"},
		{[]string{"--star", "2", "--mkey", "secret"}, "a number of up to 64 bits"},
		{[]string{"--star", "2", "--mkey", "1", "--mkey-protect", "4"}, "--mkey-protect 4: give 0 to 3"},
		{[]string{"--star", "2", "--mkey-lease", "9s"}, "belong to --mkey"},
		{[]string{"--star", "2", "--mkey", "1", "--mkey-lease", "9"}, "is not a time: give more than 0, with a unit"},
		{[]string{"--star", "2", "--mkey", "1", "--mkey-lease", "1.5s"}, "give whole seconds"},
		{[]string{"--star", "2", "--routing", "best"}, "there are auto, min-hop and up-down"},
		{[]string{"--star", "2", "--partitions", "/nowhere/to/be/found"}, "/nowhere/to/be/found"},
		{[]string{"--star", "2", "--partitions", topology}, topology + ":2: the statement has no end"},
		{[]string{"show", "--interval", "0s"}, `--interval: "0s" is not a time`},
		{[]string{"show", "--interval", "61m"}, "give at most an hour"},
		{[]string{"--star", "2", "--name", "a?b"}, "at most 64 letters"},
		{[]string{"--star", "2", "--script", "/nowhere/to/be/found"}, "/nowhere/to/be/found"},
		{[]string{"/nowhere/to/be/found"}, "/nowhere/to/be/found"},
		{[]string{"shw"}, "there is no file shw: did you mean `ramjet fabric show`?"},
		{[]string{wrong}, wrong + ":2: "},
		{[]string{noInclude}, noInclude + `:7: include "rest.net"`},
		{[]string{"one", "two"}, "\"two\" is one argument too many: write `ramjet fabric [TOPOLOGY]`"},
		{[]string{"show", "--name", "nobody-runs-this"},
			"start one, such as with ramjet fabric --fat-tree 4,2 --name nobody-runs-this"},
		{[]string{"show", "--star", "2", "--route", "host-1,host-2"}, "a fabric that does not run has no routes"},
		{[]string{"show", "--star", "2", "nothing"}, `there is no node "nothing"`},
		{[]string{"show", "--name", "x", "--route", "host-1"}, "give two adapters, such as host-1,host-2"},
		{[]string{"show", "--topology", wrong}, wrong + ":2: "},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			ramjetCmd(t, append([]string{"fabric"}, c.args...)...).wantError(t, cli.ExitUsage, c.text)
		})
	}
}

// A failure is rehearsed by a script; its exit status tells whether all was as expected.
func TestFabricScript(t *testing.T) {
	t.Parallel()
	script := `
expect route host-w host-e
expect link west[2] up
unlink west[2]
wait active within 1m
expect link east[2] down
expect route host-w host-e within 1m
unlink west[3]
expect no route host-w host-e within 1m
relink west
expect route host-w host-e within 1m
print all of it
`
	topology := writeFiles(t, "two.net", twoRoutes+"do print on it\n", "rest.net", restOfTwoRoutes, "script", script)
	name := fabricName(t)
	r := ramjetCmd(t, "fabric", topology, "--name", name, "--script", filepath.Join(filepath.Dir(topology), "script"))
	r.wantSuccess(t)
	for _, want := range []string{`^2 switches, 2 adapters, 4 links \(4 Active\), up after `,
		`(?m)^host-w +198\.18\.0\.1 +\d+ +Active$`, `(?m)^on it$`, `(?m)^all of it$`,
		regexp.QuoteMeta("infiniband:host-w?fabric=" + name)} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Index(r.stdout, "on it") > strings.Index(r.stdout, "all of it") {
		t.Errorf("the script ran before the topology's own commands:\n%s", r.stdout)
	}

	for _, c := range []struct{ script, text string }{
		{"print first\nexpect no route host-1 host-2\n", ":2: not so: no route"},
		{"unlink host-9[1]\n", ":1: there is no node \"host-9\""},
		{"print first\nexplode\n", ":2: there is no command \"explode\""},
	} {
		file := writeFiles(t, "script", c.script)
		r := ramjetCmd(t, "fabric", "--star", "2", "--name", name, "--script", file)
		if r.status != cli.ExitFailed || !strings.HasPrefix(r.stderr, "ramjet fabric: "+file+c.text) {
			t.Errorf("%q: status %d, %q, want %q", c.script, r.status, r.stderr, file+c.text)
		}
	}
	file := writeFiles(t, "do.net", "Switch 2 \"s\"\n[1] \"h\"[1]\n\nHca 1 \"h\"\n\ndo switch h down\n")
	if r := ramjetCmd(t, "fabric", file, "--name", name); r.status != cli.ExitFailed ||
		!strings.Contains(r.stderr, file+":6: ") {
		t.Errorf("a topology's own command that fails: status %d, %q", r.status, r.stderr)
	}
}

// Other processes see a running fabric, and open its adapters.
func TestFabricShow(t *testing.T) {
	t.Parallel()
	name := fabricName(t)
	f := startReady(t, "as in", "fabric", "--ring", "3,1", "--name", name, "--seed", "7")
	ramjetCmd(t, "fabric", "--star", "2", "--name", name).wantError(t, cli.ExitUsage, "runs here already")

	r := ramjetCmd(t, "fabric", "show", "--name", name)
	r.wantSuccess(t)
	if !strings.HasPrefix(r.stdout, "3 switches, 3 adapters, 6 links (6 Active)\n") {
		t.Errorf("%s", r.stdout)
	}
	r = ramjetCmd(t, "fabric", "show", "--name", name, "--route", "host-1,198.18.0.2")
	r.wantSuccess(t)
	if !regexp.MustCompile(`^route from host-1 \(LID \d+\) to host-2 \(LID \d+\): 3 hops\n`).MatchString(r.stdout) ||
		strings.Contains(r.stdout, "it ends here") {
		t.Errorf("%s", r.stdout)
	}
	ramjetCmd(t, "fabric", "show", "--name", name, "--route", "host-1,host-77").wantError(t, cli.ExitUsage,
		`--route: there is no node "host-77"`)
	r = ramjetCmd(t, "fabric", "show", "--name", name, "host-2")
	r.wantSuccess(t)
	if !strings.HasPrefix(r.stdout, "host-2 ") || strings.Contains(r.stdout, "host-3") {
		t.Errorf("%s", r.stdout)
	}

	svg := filepath.Join(t.TempDir(), "fabric.svg")
	r = ramjetCmd(t, "fabric", "show", "--name", name, "--svg", svg, "--json", "--route", "host-3,host-1")
	r.wantSuccess(t)
	var v fabricview.View
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || len(v.Nodes) != 6 || len(v.Links) != 6 ||
		v.Route == nil || len(v.Route.Hops) != 3 || v.Route.Broken != "" {
		t.Errorf("%v: %+v", err, v)
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture: %v", err)
		}
	}

	r = ramjetCmd(t, "devices", "-v", "infiniband:host-2?fabric="+name)
	r.wantSuccess(t)
	if !regexp.MustCompile(`link_layer: +InfiniBand`).MatchString(r.stdout) ||
		!regexp.MustCompile(`port_lid: +[1-9]`).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	if r := ramjetCmd(t, "__complete", "fabric", "show", "--name", ""); !strings.Contains(r.stdout, name+"\n") {
		t.Errorf("completion: %s", r.stdout)
	}
	server := startReady(t, "waiting for clients", "ping", "-s", "-V", "-d", "infiniband:host-1?fabric="+name)
	ramjetCmd(t, "ping", "-c", "-d", "infiniband:host-2?fabric="+name, "-a", "198.18.0.1", "-C", "5",
		"-V").wantSuccess(t)
	server.wait().wantSuccess(t)

	f.interrupt()
	if r := f.wait(); r.status != 0 || r.stderr != "" {
		t.Errorf("interrupted: %+v", r)
	}
}

func TestFabricPlanned(t *testing.T) {
	topology := writeFiles(t, "two.net", twoRoutes, "rest.net", restOfTwoRoutes)
	r := ramjetCmd(t, "fabric", "show", "--topology", topology)
	r.wantSuccess(t)
	if !strings.HasPrefix(r.stdout, "2 switches, 2 adapters, 4 links\n") || !strings.Contains(r.stdout, "\neast ") {
		t.Errorf("%s", r.stdout)
	}
	r = ramjetCmd(t, "fabric", "show", "--xgft", "2,2;1,2")
	r.wantSuccess(t)
	if !strings.HasPrefix(r.stdout, "4 switches, 4 adapters, 8 links\n") {
		t.Errorf("%s", r.stdout)
	}
}

// Without a manager ports wait for one, and it is said how tools get at the fabric.
func TestFabricIBSim(t *testing.T) {
	t.Parallel()
	name := fabricName(t)
	f := startReady(t, "LD_PRELOAD", "fabric", "--star", "2", "--name", name, "--no-manager", "--ibsim="+name)
	r := ramjetCmd(t, "fabric", "show", "--name", name)
	r.wantSuccess(t)
	if !strings.HasPrefix(r.stdout, "1 switch, 2 adapters, 2 links (2 Initialize)\n") {
		t.Errorf("%s", r.stdout)
	}
	f.interrupt()
	if r := f.wait(); r.status != 0 || !strings.Contains(r.stdout, "libumad2sim.so IBSIM_SOCKNAME="+name+" opensm\n") ||
		!strings.Contains(r.stdout, "no subnet manager") {
		t.Errorf("%+v", r)
	}
}
