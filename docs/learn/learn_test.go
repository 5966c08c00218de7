// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package learn runs the commands of the chapters, and compares their output with the chapters.
package learn

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// patience bounds a command.
const patience = 2 * time.Minute

// block is fenced text of a chapter.
type block struct {
	chapter, kind, text string
	line                int
}

// blocks returns the fenced blocks of all chapters. The kind is the text behind the fence.
func blocks(t *testing.T) []block {
	t.Helper()
	chapters, err := filepath.Glob("*.md")
	if err != nil || len(chapters) < 12 {
		t.Fatalf("%d chapters: %v", len(chapters), err)
	}
	return blocksOf(t, chapters...)
}

func blocksOf(t *testing.T, chapters ...string) (all []block) {
	t.Helper()
	for _, chapter := range chapters {
		src, err := os.ReadFile(chapter)
		if err != nil {
			t.Fatal(err)
		}
		var in *block
		for i, line := range strings.Split(string(src), "\n") {
			kind, fence := strings.CutPrefix(line, "```")
			switch {
			case fence && in == nil:
				in = &block{chapter: chapter, kind: kind, line: i + 1}
			case fence:
				all = append(all, *in)
				in = nil
			case in != nil:
				in.text += line + "\n"
			}
		}
		if in != nil {
			t.Errorf("%s:%d: the block has no end", chapter, in.line)
		}
	}
	return all
}

// numbers are the numbers that differ from run to run: with fractions and thousands apart, also in hexadecimal.
var numbers = regexp.MustCompile(`0x[0-9a-f]+|\d+(,\d{3})*(\.\d+)?`)

// pattern returns the outputs that a command's shown output stands for: itself, but a line of three dots is any
// lines. If numbers vary, each is any number, and blanks are any blanks.
func pattern(shown string, vary bool) *regexp.Regexp {
	var p strings.Builder
	p.WriteString(`^`)
	for line := range strings.Lines(shown) {
		line = strings.TrimRight(line, " \n")
		if line == "..." {
			p.WriteString(`(?:.*\n)*?`)
			continue
		}
		if !vary {
			p.WriteString(regexp.QuoteMeta(line) + `\n`)
			continue
		}
		for i, word := range strings.Fields(line) {
			if i > 0 {
				p.WriteString(`[ \t]+`)
			} else {
				p.WriteString(`[ \t]*`)
			}
			for len(word) > 0 {
				n := numbers.FindStringIndex(word)
				if n == nil {
					n = []int{len(word), len(word)}
				}
				p.WriteString(units(word[:n[0]]))
				if n[0] < n[1] {
					p.WriteString(`(?:0x[0-9a-f]+|\d+(?:,\d{3})*(?:\.\d+)?)`)
				}
				word = word[n[1]:]
			}
		}
		p.WriteString(`[ \t]*\n`)
	}
	p.WriteString(`$`)
	return regexp.MustCompile(p.String())
}

// units returns the pattern of a word without numbers: a unit of time, of traffic or of bandwidth is any such unit,
// before the same punctuation.
func units(word string) string {
	unit := strings.TrimRight(word, ".,;:)")
	end := regexp.QuoteMeta(word[len(unit):])
	switch unit {
	case "ns", "µs", "ms", "s":
		return `(?:ns|µs|ms|s)` + end
	case "kB", "MB", "GB":
		return `[kMG]?B` + end
	case "kB/s", "MB/s", "GB/s":
		return `[kMG]?B/s` + end
	}
	return regexp.QuoteMeta(word)
}

// step is a command and its output.
type step struct{ command, shown string }

func steps(t *testing.T, b block) (list []step) {
	t.Helper()
	for line := range strings.Lines(ownAddresses(b.text)) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, step{command: strings.TrimSpace(command)})
			continue
		}
		if len(list) == 0 {
			t.Fatalf("%s:%d: output without a command", b.chapter, b.line)
		}
		list[len(list)-1].shown += line
	}
	return list
}

// build builds the command and the programs of the chapters, and returns where they are.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-o", dir+string(os.PathSeparator),
		"./cmd/ramjet", "./docs/learn/programs/...")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// start starts a command of a chapter: go run of a package that build has built.
func start(t *testing.T, dir, command string, out io.Writer) *exec.Cmd {
	t.Helper()
	rest, ok := strings.CutPrefix(command, "go run ./")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 || strings.ContainsAny(rest, "\"'|<>$;&`") {
		t.Fatalf("the tests run `go run ./PACKAGE ARGUMENTS`, and not %q", command)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, filepath.Base(words[0])), words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LOG_DEVICE="+logDevice)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// logDevice is the device of the course's own program, unless a command names one.
var logDevice string

// addresses are the addresses of devices that commands name, and own has the address that stands for each in this run:
// another run at the same time has others.
var (
	addresses = regexp.MustCompile(`\b127\.0\.71\.\d+\b`)
	own       = make(map[string]string)
)

// ownAddresses returns text with the addresses of this run.
func ownAddresses(text string) string {
	return addresses.ReplaceAllStringFunc(text, func(shown string) string {
		if own[shown] == "" {
			own[shown] = loopback.Next().String()
		}
		return own[shown]
	})
}

// terminal is a command that runs in another terminal, until the end of its chapter.
type terminal struct {
	block
	step
	cmd *exec.Cmd
	out *testrun.Buffer
}

// open starts the command of a block in another terminal, and waits for the first line that it shows.
func open(t *testing.T, dir string, b block) *terminal {
	t.Helper()
	list := steps(t, b)
	if len(list) != 1 {
		t.Fatalf("%s:%d: a terminal has one command", b.chapter, b.line)
	}
	w := &terminal{block: b, step: list[0], out: new(testrun.Buffer)}
	w.cmd = start(t, dir, w.command, w.out)
	first, _, _ := strings.Cut(w.shown, "\n")
	w.await(t, pattern(first+"\n...\n", true))
	return w
}

// await waits until the command's output is as shown.
func (w *terminal) await(t *testing.T, want *regexp.Regexp) {
	t.Helper()
	for end := time.Now().Add(patience); !want.MatchString(clean(w.out.String())); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s:%d: %s prints\n%s\nand not\n%s", w.chapter, w.line, w.command, w.out, w.shown)
			return
		}
	}
}

// close ends the command, as Ctrl-C does, once it has printed the chapter's lines.
func (w *terminal) close(t *testing.T) {
	t.Helper()
	w.await(t, pattern(w.shown, true))
	w.cmd.Process.Signal(os.Interrupt)
	w.cmd.Wait()
}

// Every command of the chapters runs and prints the chapter's lines.
func TestCommands(t *testing.T) {
	dir := build(t)
	logDevice = "roce:" + loopback.Next().String()
	ran := 0
	var terminals []*terminal
	closeAll := func() {
		for _, w := range terminals {
			w.close(t)
		}
		terminals = nil
	}
	all := blocks(t)
	for i, b := range all {
		if i > 0 && b.chapter != all[i-1].chapter {
			closeAll()
		}
		kind, rest, _ := strings.Cut(b.kind, " ")
		switch {
		case kind == "console" && (rest == "" || rest == "numbers"):
		case kind == "console" && rest == "terminal":
			ran++
			terminals = append(terminals, open(t, dir, b))
			continue
		case kind == "go":
			continue
		default:
			t.Errorf("%s:%d: a block of kind %q, which nobody tests", b.chapter, b.line, b.kind)
			continue
		}
		for _, s := range steps(t, b) {
			ran++
			if strings.HasSuffix(s.command, "demo -d infiniband") && slices.Contains(infiniband.Names(), "") {
				t.Logf("%s:%d: not run: it would take the fabric that somebody runs here", b.chapter, b.line)
				continue
			}
			var out bytes.Buffer
			err := start(t, dir, s.command, &out).Wait()
			if err != nil {
				t.Errorf("%s:%d: %s: %v\n%s", b.chapter, b.line, s.command, err, out.Bytes())
				continue
			}
			if !pattern(s.shown, rest == "numbers").MatchString(clean(out.String())) {
				t.Errorf("%s:%d: %s prints\n%s\nand not\n%s", b.chapter, b.line, s.command, out.Bytes(), s.shown)
			}
		}
	}
	closeAll()
	if ran < 20 {
		t.Errorf("only %d commands ran", ran)
	}
	same(t, "fabric.svg", dir)

	// A run records packets with numbers of its own, so the picture in the chapter is of a recording that is kept.
	recording, err := os.ReadFile("operations.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operations.pcapng"), recording, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := start(t, dir, "go run ./cmd/ramjet ladder operations.pcapng -o operations.svg", &out).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	same(t, "operations.svg", dir)
}

// same demands that a picture of the chapters is the one that a command has drawn into dir.
func same(t *testing.T, picture, dir string) {
	t.Helper()
	drawn, err := os.ReadFile(filepath.Join(dir, picture))
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := os.ReadFile(picture); err != nil || !bytes.Equal(drawn, shown) {
		t.Errorf("%s is not what the command draws: %v", picture, err)
	}
}

// clean takes blanks at the ends of lines away.
func clean(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		b.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
	return b.String()
}

// Go code that chapters quote stands in a program, line by line in this order. "..." leaves lines out.
func TestQuotes(t *testing.T) {
	quotes := 0
	for _, b := range append(blocks(t), blocksOf(t, filepath.Join("..", "ci.md"))...) {
		kind, file, _ := strings.Cut(b.kind, " ")
		if kind != "go" {
			continue
		}
		quotes++
		src, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("%s:%d: a quotation says what it quotes, as in ```go docs/learn/programs/first/main.go: %v",
				b.chapter, b.line, err)
			continue
		}
		var lines []string
		for line := range strings.Lines(string(src)) {
			lines = append(lines, strings.TrimSpace(line))
		}
		at, anywhere := 0, true
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if line == "..." {
				anywhere = true
				continue
			}
			for anywhere && at < len(lines) && lines[at] != line {
				at++
			}
			if at == len(lines) || lines[at] != line {
				t.Errorf("%s:%d: %s has no line %q there", b.chapter, b.line, file, line)
				break
			}
			at, anywhere = at+1, false
		}
	}
	if quotes < 8 {
		t.Errorf("only %d quotations", quotes)
	}
}

// The names of Go in the table for C programmers exist.
func TestNamesOfGo(t *testing.T) {
	page, err := os.ReadFile("c.md")
	if err != nil {
		t.Fatal(err)
	}
	source := make(map[string]string) // by package
	for _, dir := range []string{"verbs", "cm", "rnet", "."} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source[dir] += string(text)
		}
	}
	names := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-zA-Z]+)\\.([A-Za-z]+)`").FindAllStringSubmatch(cells[2], -1) {
			names++
			in, declared := source["verbs"]+source["cm"], `(?m)^func \(\w+ \*?`+m[1]+`\) `+m[2]+`\(`
			switch m[1] {
			case "ramjet":
				in, declared = source["."], `(?m)^func `+m[2]+`\(`
			case "cm", "rnet":
				in, declared = source[m[1]], `(?m)^func `+m[2]+`\(`
			case "net":
				continue
			}
			if !regexp.MustCompile(declared).MatchString(in) {
				t.Errorf("c.md: there is no %s.%s", m[1], m[2])
			}
		}
	}
	if names < 40 {
		t.Errorf("only %d names", names)
	}
}

// Every program and every mistake is run by a chapter.
func TestAllRun(t *testing.T) {
	var commands strings.Builder
	for _, b := range blocks(t) {
		if strings.HasPrefix(b.kind, "console") {
			commands.WriteString(b.text)
		}
	}
	programs, err := filepath.Glob(filepath.Join("programs", "*", "main.go"))
	if err != nil || len(programs) < 7 {
		t.Fatalf("%d programs: %v", len(programs), err)
	}
	for _, p := range programs {
		if name := filepath.ToSlash(filepath.Dir(p)); !strings.Contains(commands.String(),
			"go run ./docs/learn/"+name) {
			t.Errorf("no chapter runs %s", name)
		}
	}
	src, err := os.ReadFile(filepath.Join("programs", "mistakes", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t"([a-z-]+)":`).FindAllSubmatch(src, -1)
	if len(names) < 10 {
		t.Errorf("only %d mistakes", len(names))
	}
	for _, m := range names {
		if !strings.Contains(commands.String(), "programs/mistakes "+string(m[1])+"\n") {
			t.Errorf("no chapter makes the mistake %s", m[1])
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		vary, want     bool
	}{
		{"a 1\n", "a 1\n", false, true},
		{"a 1\n", "a 2\n", false, false},
		{"a 1 µs\n", "a   22.5 µs\n", true, true},
		{"a 1 µs\n", "b 1 µs\n", true, false},
		{"a 1 µs, 2 GB/s\n", "a 1 ms, 2 MB/s\n", true, true},
		{"a 1 µs, 2 GB/s\n", "a 1 ms 2 GB/s\n", true, false},
		{"is 1.78 ms.\n", "is 947 µs.\n", true, true},
		{"is 1.78 ms.\n", "is 947 µs\n", true, false},
		{"is 1.78 ms.\n", "is 947 MB.\n", true, false},
		{"is 1.78 ms.\n", "is many ms.\n", true, false},
		{"(took 30 µs)\n", "(took 1.1 s)\n", true, true},
		{"a 1 µs\n", "a 1 ms\n", true, true},
		{"a 1 µs; b\n", "a 1 ms; b\n", true, true},
		{"a 1 µs; b\n", "a 1 ms b\n", true, false},
		{"a 756 MB 12,345 packets\n", "a 1.03 GB 999 packets\n", true, true},
		{"a 1 KiB\n", "a 1 kB\n", true, false},
		{"at 0x1f:0x2\n", "at 0xe7:0x3\n", true, true},
		{"a\n...\nz\n", "a\nb\nc\nz\n", false, true},
		{"a\n...\nz\n", "a\nb\n", false, false},
		{"a\n", "a\nb\n", false, false},
	} {
		if got := pattern(c.shown, c.vary).MatchString(c.printed); got != c.want {
			t.Errorf("%q shown, %q printed, numbers vary %v: %v", c.shown, c.printed, c.vary, got)
		}
	}
}

// word is a word to read, which the lines of tables are not.
var word = regexp.MustCompile(`\S*[\pL\pN]\S*`)

// The first page says how long the chapters take: so many words, commands and lines of programs.
func TestHowLong(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	says := func(text string) int {
		t.Helper()
		m := regexp.MustCompile(text).FindSubmatch(page)
		if m == nil {
			t.Fatalf("README.md does not say %q", text)
		}
		n, err := strconv.Atoi(strings.ReplaceAll(string(m[1]), ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	about := func(what string, said, is int) {
		t.Helper()
		if 10*said < 9*is || 10*said > 11*is {
			t.Errorf("%s: README.md says %d, and it is %d", what, said, is)
		}
	}
	count := func(pattern, separator string) (n int) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files: %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if separator == "" {
				n += len(word.FindAll(text, -1))
			} else {
				n += strings.Count(string(text), separator)
			}
		}
		return n
	}
	words, lines := count("[01]*.md", "")+count("README.md", ""), count(filepath.Join("programs", "log", "*.go"), "\n")
	about("words", says(`([\d,]+) words, at 200 words a minute`), words)
	about("minutes of reading", says(`at 200 words a minute \| (\d+) minutes`), words/200)
	about("lines of programs", says(`the log in full, if you like: (\d+) lines`), lines)
	commands := 0
	for _, b := range blocks(t) {
		if strings.HasPrefix(b.kind, "console") && b.chapter != "answers.md" {
			commands += len(steps(t, b))
		}
	}
	if said := says(`the other (\d+) commands`); said != commands-1 {
		t.Errorf("README.md says that there are %d commands after the first, and there are %d", said, commands-1)
	}
	if whole := says(`or (\d+) with the log`); whole >= 60 {
		t.Errorf("an hour in %d minutes", whole)
	}
}
