// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands that the pages show.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// patience bounds a command.
const patience = 2 * time.Minute

// command is a command line of a page.
type command struct{ page, line, text string }

// shown finds command lines in the indented and fenced blocks of the pages.
func shown(t *testing.T) (all []command) {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`^(?:\$ )?((?:[A-Z_]+=\S+ |sudo |export )*(?:\.?/?(?:ramjet/)?ramjet|go|\./\w|mpirun|docker|opensm|apt|tcpdump|man) ?.*)$`)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced, commands := false, true
		for i, line := range strings.Split(string(text), "\n") {
			if kind, ok := strings.CutPrefix(line, "```"); ok {
				fenced = !fenced
				commands = !fenced || kind == "" || kind == "console"
				continue
			}
			inside, indented := strings.CutPrefix(line, "    ")
			if !fenced && !indented || !commands {
				continue
			}
			if !indented {
				inside = line
			}
			inside, _, _ = strings.Cut(inside, "   ") // what follows explains it
			if m := begins.FindStringSubmatch(strings.TrimSpace(inside)); m != nil {
				all = append(all, command{filepath.Base(page), fmt.Sprintf("%s:%d", filepath.Base(page), i+1), m[1]})
			}
		}
	}
	return all
}

// host runs commands in a network namespace with the addresses of the pages, with a home of its own, and a directory
// with the files that they name.
type host struct {
	*testing.T
	dir string
	env []string
	ran map[string]bool
}

// command makes a command of a page. As on the pages, ramjet is in PATH and in the directory.
func (h *host) command(ctx context.Context, text string) *exec.Cmd {
	h.Helper()
	h.ran[text] = true
	c := exec.CommandContext(ctx, "sh", "-c", strings.TrimPrefix(text, "sudo "))
	c.Dir, c.Env = h.dir, h.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// run runs a command, which must succeed, until it ends.
func (h *host) run(text string, env ...string) string {
	h.Helper()
	out, err := h.try(text, env...)
	if err != nil {
		h.Errorf("%s: %v\n%s", text, err, out)
	}
	return out
}

func (h *host) try(text string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := h.command(ctx, text)
	c.Env = append(slices.Clone(c.Env), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// retry runs a command until it succeeds: the server that it dials may not listen yet.
func (h *host) retry(text string, env ...string) string {
	h.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := h.try(text, env...)
		if err == nil {
			return out
		}
		if time.Now().After(end) {
			h.Errorf("%s: %v\n%s", text, err, out)
			return ""
		}
	}
}

// assignments are assignments to variables before a command.
var assignments = regexp.MustCompile(`^(\w+=\S+ )*`)

// start starts a command, and returns a function that interrupts it and wants the exit status.
func (h *host) start(text string, status int, env ...string) (stop func()) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := h.command(ctx, text)
	// The command takes the shell's place: one that forks loses an interrupt at that moment.
	c.Args[2] = assignments.ReplaceAllString(c.Args[2], "${0}exec ")
	c.Env = append(slices.Clone(c.Env), env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		h.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	return func() {
		h.Helper()
		defer cancel()
		// Where the tests' parent ignores interrupts, so does a command that has only begun.
		for began := time.Now(); ; {
			syscall.Kill(-c.Process.Pid, syscall.SIGINT)
			select {
			case <-ended:
				if got := c.ProcessState.ExitCode(); got != status && got != -1 { // -1: the signal ended it as it began
					h.Errorf("%s: exit status %d\n%s", text, got, out.String())
				}
				return
			case <-time.After(5 * time.Second):
			}
			if time.Since(began) > patience {
				h.Errorf("%s: it goes on after an interrupt\n%s", text, out.String())
				cancel()
				<-ended
				return
			}
		}
	}
}

func (h *host) file(name, text string) {
	h.Helper()
	name = filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
}

// newHost sets the namespace up, and builds the command.
func newHost(t *testing.T) *host {
	t.Helper()
	loopback.SetUp(t, "address add 192.0.2.1/32 dev lo", "address add 192.0.2.7/32 dev lo",
		"address add 192.0.2.9/32 dev lo")
	h := &host{T: t, dir: t.TempDir(), ran: map[string]bool{}}
	build := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(h.dir, "ramjet"), "../cmd/ramjet")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := filepath.Join(h.dir, "home")
	if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAMJET_") && !strings.HasPrefix(v, "HOME=") && !strings.HasPrefix(v, "PATH=") &&
			!strings.HasPrefix(v, "XDG_RUNTIME_DIR=") {
			h.env = append(h.env, v)
		}
	}
	h.env = append(h.env, "HOME="+home, "PATH="+h.dir+":"+os.Getenv("PATH"),
		"XDG_RUNTIME_DIR="+filepath.Join(home, "run"))
	return h
}

// elsewhere are commands that run elsewhere, or not at all, each with the reason. They begin so.
var elsewhere = []struct{ begins, why string }{
	{"sudo apt-get ", "installs packages: .ci/run does"},
	{"go test ", "CI runs the tests, and each benchmark once; TestGoCommands looks for what these name"},
	{"RAMJET_LONG=1 go test ", "the same"},
	{"DASH_PICTURES=", "the same"},
	{"RAMJET_DEVICES=roce:127.93.1.1,roce:127.93.1.2 go test ./kernel", "./check runs it"},
	{"export ", "TestOpenSM, and ./check, set these"},
	{"go build ./cmd/ramjet", "newHost builds it"},
	{"go run ./cmd/ramjet demo", "TestCommands runs the built command"},
	{"go run ./internal/testkit/mutate ", "takes hours; its own tests run a few"},
	{"go install ", "needs a released version"},
	{"CGO_ENABLED=0 go install ", "needs a released version"},
	{"CGO_ENABLED=0 go build -o program ./cmd/program", "a user's program"},
	{"docker ", "needs Docker; release/check.sh builds the images"},
	{"./ramjet run", "cabi/programs runs these programs"},
	{"ramjet run --check", "a user's program; cabi/programs runs programs of ours so"},
	{"RAMJET_CHECK=1 ./go-program", "a user's program"},
	{"ramjet run --faults 'loss 1% sent; fail reg_mr ENOMEM nth 3' -- ./go-program",
		"a user's program; package faults tests the summary"},
	{"RAMJET_PCAP=/tmp/%p.pcapng ./ramjet run", "cabi/programs records programs"},
	{"ramjet run -d 'infiniband:?join=192.0.2.1:7470' -- ibv_devinfo",
		"a C program with the libraries, which the test does not build"},
	{"ramjet run -d shm:127.0.0.1 -- ib_write_bw", "cabi/programs runs it"},
	{"RAMJET_DEVICE=iwarp:192.0.2.7 ./program", "a user's program"},
	{"mpirun ", "cabi/programs runs MPI"},
	{"opensm &", "infiniband's TestOpenSM runs it"},
	{"./interop/", "./check interop runs it"},
	{"./cabi/", "./check builds the libraries"},
	{"ramjet bench registration --runs 12", "takes minutes; cmd/ramjet runs shorter ones"},
	{"ramjet bench notification --svg docs/notification.svg", "takes minutes; cmd/ramjet runs shorter ones"},
	{"ramjet perf table ", "takes minutes; cmd/ramjet runs shorter ones"},
	{"go run ./cmd/ramjet sim aimd.yaml", "TestController runs it"},
	{"RAMJET_CC=aimd go run ./cmd/ramjet perf", "TestController runs it"},
	{"ramjet sim docs/sim/fbhadoop", "takes half a minute; the others of docs/sim run"},
	{"ramjet sim docs/sim/websearch", "takes half a minute"},
	{"ramjet sim docs/sim/hadoop-incast", "takes half a minute"},
	{"ramjet top  ", "its screen, not a command"},
	{"man ramjet-cp", "needs man"},
}

// TestCommands runs the commands that the pages show, in a namespace that has their addresses. A command that is in no
// scene, and not among the commands that run elsewhere, fails the test: so does one that no page shows any more.
func TestCommands(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	testrun.SkipUnlessLong(t, "half a minute of commands")
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	h := newHost(t)
	h.outputs()
	h.files()
	h.pipes()
	h.pings()
	h.fabrics()
	h.watchers()
	h.simulations()
	pages := map[string]bool{}
	for _, c := range shown(t) {
		pages[c.text] = true
		if !h.ran[c.text] && !slices.ContainsFunc(elsewhere,
			func(e struct{ begins, why string }) bool { return strings.HasPrefix(c.text+" ", e.begins) }) {
			t.Errorf("%s: nobody runs %q: add it to a scene of this test, or to elsewhere with the reason", c.line,
				c.text)
		}
	}
	for text := range h.ran {
		if !pages[text] {
			t.Errorf("no page shows %q", text)
		}
	}
}

// outputs are commands that print something and end.
func (h *host) outputs() {
	capture, err := os.ReadFile("../internal/app/ladder/testdata/loss.pcapng")
	if err != nil {
		h.Fatal(err)
	}
	h.file("capture.pcapng", string(capture))
	h.file("internal/app/ladder/testdata/loss.pcapng", string(capture))
	h.file("docs/x", "")
	h.run("ramjet ladder capture.pcapng")
	h.run("ramjet ladder capture.pcapng -o ladder.svg")
	h.run("ramjet ladder capture.pcapng -o ladder.html")
	h.run("ramjet ladder capture.pcapng -o ladder.svg --width 420")
	h.run("ramjet ladder internal/app/ladder/testdata/loss.pcapng --to 8.5ms -o docs/ladder.svg")
	for _, name := range []string{"access.pcapng", "access-server.log", "access-client.log"} {
		b, err := os.ReadFile("../internal/app/ladder/testdata/" + name)
		if err != nil {
			h.Fatal(err)
		}
		h.file("internal/app/ladder/testdata/"+name, string(b))
		h.file(strings.TrimPrefix(name, "access-"), string(b)) // server.log and client.log
	}
	h.run("ramjet ladder capture.pcapng --log server.log,client.log")
	h.run("ramjet ladder internal/app/ladder/testdata/access.pcapng --from 1.1ms --to 1.8ms " +
		"--log internal/app/ladder/testdata/access-server.log,internal/app/ladder/testdata/access-client.log")
	h.run("ramjet explain REM_ACCESS_ERR")
	h.run("ramjet stat")
	h.file("job.log", "ibv_create_cq: Cannot allocate memory\n")
	for _, text := range []string{"ramjet doctor", "ramjet doctor 192.0.2.9", "ramjet doctor roce:192.0.2.7",
		"ramjet doctor --log job.log", "ramjet doctor --json"} {
		if out, err := h.try(text); !strings.Contains(out, "roce") { // its status says what it finds
			h.Errorf("%s: %v\n%s", text, err, out)
		}
	}
	for _, dir := range []string{".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"} {
		h.file("home/"+dir+"/x", "")
	}
	h.run("ramjet completion bash >~/.local/share/bash-completion/completions/ramjet")
	h.run("ramjet completion zsh >~/.zfunc/_ramjet")
	h.run("ramjet completion fish >~/.config/fish/completions/ramjet.fish")
	h.run("ramjet man ~/go/share/man/man1")
	h.run("ramjet demo -d shm")
	h.run("ramjet perf write bw --loopback -d shm: -s 1M")
	h.run("RAMJET_CC=dcqcn ramjet perf write bw --loopback -n 200")
	h.run("ramjet perf write bw -s 1M -D 250ms --loopback --compare -d 'iwarp:?congestion=cubic&fpdu=1460'")
}

// simulations are the scenarios of the pages.
func (h *host) simulations() {
	files, err := os.ReadDir("sim")
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile("sim/" + f.Name())
		if err != nil {
			h.Fatal(err)
		}
		h.file("docs/sim/"+f.Name(), string(b))
	}
	h.run("ramjet sim docs/sim/dcqcn-incast.yaml -o incast.svg")
	h.run("ramjet sim docs/sim/dcqcn-fluid.yaml -o dcqcn-fluid.svg")
	h.run("ramjet sim docs/sim/victim.yaml --seed 1 --csv victim")
	h.run("ramjet sim docs/sim/incast.yaml")
	h.run("ramjet sim docs/sim/victim7.yaml")
	h.run("ramjet sim docs/sim/victim7-ten.yaml")
	h.run("ramjet sim docs/sim/victim7-trim.yaml")
	h.run("ramjet sim docs/sim/victim7-infiniband.yaml")
	h.run("ramjet sim docs/sim/irn.yaml")
	h.run("ramjet sim docs/sim/unfair.yaml")
	h.run("ramjet sim docs/sim/swift-incast.yaml")
	h.run("ramjet sim --print > incast.yaml")
	h.run("ramjet sim incast.yaml")
	h.run(`ramjet sim incast.yaml --at "host 1" --pcap incast.pcapng`)
	h.run(`ramjet sim incast.yaml --at "host 1" --at "switch 0 - host 0" --packets incast.txt`)
}

// files are copied to a server and back.
func (h *host) files() {
	h.file("photos/one", "a photo")
	h.file("photos/two", strings.Repeat("another ", 10000))
	h.file("here/x", "")
	text := "ramjet serve --read -d roce:192.0.2.7 /srv/incoming"
	srv := filepath.Join(h.dir, "srv", "incoming")
	if err := os.MkdirAll(srv, 0o755); err != nil {
		h.Fatal(err)
	}
	stop := h.start(strings.Replace(text, "/srv", h.dir+"/srv", 1), 0)
	delete(h.ran, strings.Replace(text, "/srv", h.dir+"/srv", 1))
	h.ran[text] = true
	h.retry("ramjet cp -d roce:192.0.2.9 -r photos 192.0.2.7:")
	if out := h.run("ramjet ls -d roce:192.0.2.9 -l 192.0.2.7:photos"); !strings.Contains(out, "two") {
		h.Errorf("ls: %s", out)
	}
	h.run("ramjet cp -d roce:192.0.2.9 -r 192.0.2.7:photos here")
	stop()
	if got, err := os.ReadFile(filepath.Join(h.dir, "here", "photos", "one")); string(got) != "a photo" {
		h.Errorf("what came back is %q: %v", got, err)
	}
}

// pipes carry a file.
func (h *host) pipes() {
	h.file("original", "what goes through a pipe")
	stop := h.start("ramjet pipe -l 7000 >copy", 0, "RAMJET_DEVICE=roce:192.0.2.7")
	h.retry("ramjet pipe 192.0.2.7 7000 <original", "RAMJET_DEVICE=roce:192.0.2.9")
	stop()
	if got, err := os.ReadFile(filepath.Join(h.dir, "copy")); string(got) != "what goes through a pipe" {
		h.Errorf("the copy is %q: %v", got, err)
	}
}

// pings find the device that the environment names.
func (h *host) pings() {
	stop := h.start("RAMJET_DEVICE=iwarp:192.0.2.7 ramjet ping -s", 0)
	defer stop()
	const ping = "ramjet ping -c -d iwarp:192.0.2.9 -a 192.0.2.7 -C 3"
	h.retry(ping)
	delete(h.ran, ping) // the other side of the page's command
}

// fabrics run one after the other, and two that are joined.
func (h *host) fabrics() {
	quiet := func(text string, name ...string) (stop func()) { // the console has no terminal
		shown := text
		for _, n := range name {
			text += " --name " + n
		}
		stop = h.start(text+" </dev/null", 0)
		delete(h.ran, text+" </dev/null")
		h.ran[shown] = true
		return stop
	}
	stop := quiet("ramjet fabric --fat-tree 4,2")
	h.retry("ramjet fabric show")
	h.run("ramjet fabric show --route host-1,host-4 --svg fabric.svg")
	h.run("ramjet fabric do 'unlink leaf-1[1]' 'expect no route host-1 host-2 within 5s' 'relink leaf-1[1]'")
	const server = "ramjet ping -s -d infiniband:host-1"
	end := h.start(server, 0)
	h.retry("ramjet ping -c -d infiniband:host-16 -a 198.18.0.1 -C 3")
	h.ran["ramjet ping -c -d infiniband:host-16 -a 198.18.0.1"] = true // without an end
	delete(h.ran, "ramjet ping -c -d infiniband:host-16 -a 198.18.0.1 -C 3")
	end()
	stop()

	stop = quiet("ramjet fabric --star 1 --spare 32 --listen :7470")
	pod := "ramjet ping -s -d 'infiniband:pod-0?join=127.0.0.1:7470'"
	end = h.start(pod, 130)
	delete(h.ran, pod)
	h.retry("ramjet fabric do 'unlink pod-0[1]' 'wait 2s' 'relink pod-0[1]'")
	end()
	stop()

	topology := "Switch 8 \"leaf\"\n[1] \"host-1\"[1]\n\nHca 1 \"host-1\"\n[1] \"leaf\"[1]\n"
	for _, name := range []string{"cluster.net", "a.net", "b.net"} {
		h.file(name, topology)
	}
	h.run("ramjet fabric show cluster.net")
	h.file("failure.txt", "expect route host-1 host-4\nunlink leaf-1[3]\nexpect route host-1 host-4 within 20s\nrelink leaf-1[3]\nwait active within 20s\n")
	h.run("ramjet fabric --fat-tree 4,2 --script failure.txt")
	quiet("ramjet fabric cluster.net --ibsim")()
	quiet("ramjet fabric --fat-tree 4,2 --no-manager --ibsim")()

	first := quiet("ramjet fabric a.net --listen 192.0.2.1:7470", "first")
	second := quiet("ramjet fabric b.net --host 1 --no-manager --join '192.0.2.1:7470,leaf[5],leaf[6]'", "second")
	for _, name := range []string{"first", "second"} {
		up := "ramjet fabric show --name " + name
		h.retry(up)
		delete(h.ran, up)
	}
	end = h.start("ramjet ping -s -d 'infiniband:198.18.8.1?fabric=second'", 0)
	delete(h.ran, "ramjet ping -s -d 'infiniband:198.18.8.1?fabric=second'")
	const far = "ramjet ping -c -d 'infiniband:host-1?fabric=first' -a 198.18.8.1 -C 3"
	h.retry(far)
	delete(h.ran, far)
	h.ran["ramjet ping -c -d infiniband:host-1 -a 198.18.8.1"] = true // in a default fabric, without an end
	end()
	second()
	first()
}

// watchers run until they are interrupted.
func (h *host) watchers() {
	for _, server := range []string{"ramjet dash", "ramjet export"} {
		stop := h.start(server, 0)
		time.Sleep(300 * time.Millisecond)
		stop()
	}
	h.run("ramjet export --once")
	if out, err := h.try("ramjet top"); err == nil || !strings.Contains(out, "terminal") {
		h.Errorf("ramjet top without a terminal: %v\n%s", err, out)
	}
	h.ran["sudo tcpdump -i any -w - udp port 4791 | ramjet ladder -"] = true
	read, err := os.Open(filepath.Join(h.dir, "capture.pcapng"))
	if err != nil {
		h.Fatal(err)
	}
	defer read.Close()
	c := exec.Command(filepath.Join(h.dir, "ramjet"), "ladder", "-") // what comes from tcpdump
	c.Stdin = io.Reader(read)
	if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PSN")) {
		h.Errorf("ramjet ladder -: %v\n%s", err, out)
	}
}

// TestGoCommands looks for the tests and benchmarks that commands on the pages name, and for their flags.
func TestGoCommands(t *testing.T) {
	names := regexp.MustCompile(`-(run|bench) ('[^']*'|\S+)`)
	flags := regexp.MustCompile(` -([a-z.]+)`)
	rdmatest, err := os.ReadFile("../rdmatest/run.go")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"run": true, "bench": true, "v": true, "benchtime": true, "count": true, "timeout": true,
		"race": true, "tags": true}
	found := 0
	for _, c := range shown(t) {
		_, test, ok := strings.Cut(c.text, "go test ")
		if !ok || strings.HasPrefix(test, "./...") {
			continue
		}
		found++
		dir, _, _ := strings.Cut(test, " ")
		sources, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if err != nil || len(sources) == 0 {
			t.Errorf("%s: %s has no tests", c.line, dir)
			continue
		}
		var src []byte
		for _, name := range sources {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			src = append(src, text...)
		}
		for _, m := range names.FindAllStringSubmatch(test, -1) {
			pattern := strings.Trim(m[2], "'")
			if pattern == "^$" || pattern == "XXX" || pattern == "-" { // none
				continue
			}
			kind := map[string]string{"run": "Test", "bench": "Benchmark"}[m[1]]
			want, err := regexp.Compile(pattern)
			if err != nil {
				t.Errorf("%s: %v", c.line, err)
				continue
			}
			if !slices.ContainsFunc(regexp.MustCompile(`(?m)^func (`+kind+`\w*)\(`).FindAllSubmatch(src, -1),
				func(f [][]byte) bool { return want.Match(f[1]) }) {
				t.Errorf("%s: %s has no %s that %q selects", c.line, dir, kind, pattern)
			}
		}
		for _, m := range flags.FindAllStringSubmatch(names.ReplaceAllString(test, ""), -1) {
			if strings.HasPrefix(m[1], "rdmatest.") && bytes.Contains(src, []byte("ramjet/rdmatest")) {
				src = append(src, rdmatest...)
			}
			if !own[m[1]] && !bytes.Contains(src, []byte(`("`+m[1]+`",`)) {
				t.Errorf("%s: the tests of %s have no flag -%s", c.line, dir, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands", found)
	}
}
