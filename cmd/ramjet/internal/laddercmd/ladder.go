// SPDX-License-Identifier: Apache-2.0

// Package laddercmd is `ramjet ladder`: recorded packets as conversations.
package laddercmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// ladderRows is the limit of a ladder's rows unless --limit is given.
const ladderRows = 1000

// ladderWidest is the largest --width.
const ladderWidest = 10_000

// ladderFlags is `ramjet ladder`.
type ladderFlags struct {
	out          string
	conversation string
	list         bool
	qp           string
	host         string
	from, to     cli.Seconds
	limit        int
	all          bool
	asJSON       bool
	width        int
	logs         []string
	span         cli.WaitTime
}

// New returns `ramjet ladder`.
func New() *cobra.Command {
	f := ladderFlags{limit: ladderRows, span: cli.WaitTime(ladderSpan)}
	c := &cobra.Command{
		Use:   "ladder CAPTURE|PID",
		Short: "Draw the conversations in a capture as ladder diagrams: text, SVG or HTML",
		Long: "Ladder reads a pcap or pcapng file, of any tool and any RDMA stack, and draws a conversation between two queue\n" +
			"pairs, or an iWARP connection: time runs downward, each\n" +
			"host has a column, and each packet is an arrow. Retransmissions, NAKs, lost\n" +
			"packets and others of that kind are marked. Long runs and repetitions take one row.\n\n" +
			"If there are several conversations it lists them, and draws one that a fault ended, or else the\n" +
			"one with the most faults, or else the busiest. The capture `-` is read from\n" +
			"standard input.\n\n" +
			"With the id of a process of this user it watches a queue pair of its devices for --for, or until Ctrl-C,\n" +
			"and draws the last packets. Faults that were injected are marked there, as in a recording of Ramjet's.\n\n" +
			"With --log, calls and completions of the queue pairs stand beside their packets: of the logs that\n" +
			"`ramjet run --log`, or RAMJET_LOG with a Go program, has written while the capture ran.",
		Example: "  ramjet ladder capture.pcapng\n  ramjet ladder capture.pcapng --conversation 3 -o ladder.html\n" +
			"  ramjet ladder capture.pcapng --qp 0x11 --from 250ms --limit 100\n  ramjet ladder capture.pcapng --log server.log,client.log\n  ramjet ladder 4242 --qp 0x11 --for 5s\n  tcpdump -i any -w - udp port 4791 | ramjet ladder -",
		Args: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return cli.Usagef("give one capture: a pcap or pcapng file, or - for standard input; or the id of a process")
			case 1:
				return nil
			}
			return cli.Usagef("give one capture, not %d", len(args))
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "write a picture or a page into `file`, by its name: .svg or .html")
	c.MarkFlagFilename("output", "svg", "html")
	fl.StringVar(&f.out, "svg", "", "write a picture into `file`: the same as --output with a name in .svg")
	c.MarkFlagFilename("svg", "svg")
	c.MarkFlagsMutuallyExclusive("output", "svg")
	fl.StringVar(&f.conversation, "conversation", "",
		"draw the conversation with this `number`, or all in one drawing: all")
	fl.BoolVar(&f.list, "list", false, "only list the conversations")
	fl.StringVar(&f.qp, "qp", "",
		"only conversations of this queue pair `number`, such as 0x11 or 17; of iWARP: of this TCP port")
	fl.StringVar(&f.host, "host", "",
		"only conversations of this `host`: an IP address, a GID, a LID, or the name of a fabric's node")
	fl.Var(&f.from, "from", "draw from this `time` on, since the first packet: in seconds or such as 250ms")
	fl.Var(&f.to, "to", "draw up to this `time`")
	fl.IntVar(&f.limit, "limit", ladderRows, "draw at most this `number` of rows; 0: all")
	fl.BoolVar(&f.all, "all", false, "give every packet a row of its own")
	fl.IntVar(&f.width, "width", 0, fmt.Sprintf("make a picture so many `pixels` wide, %d or more, and wrap its texts",
		ladder.MinPicture))
	fl.StringSliceVar(&f.logs, "log", nil,
		"draw calls and completions, too, out of a log of calls in `file`, or several with commas between them")
	c.MarkFlagFilename("log")
	fl.Var(&f.span, "for", "with a process, watch it for this `time`")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	return cli.Leaf(c, func(c *cobra.Command,
		args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if pid, ok := processOf(args[0]); ok {
			return f.drawProcess(c, pid)
		}
		if c.Flags().Changed("for") {
			return cli.Usagef("--for is for the id of a process, and %s is none", args[0])
		}
		return f.drawFile(c, args[0])
	})
}

// drawFile draws a capture.
func (f *ladderFlags) drawFile(c *cobra.Command, name string) error {
	path, remove, err := ladderFile(name)
	if err != nil {
		return err
	}
	defer remove()
	s, err := ladder.Take(ladder.File(path))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return usage.Of(err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.draw(c.OutOrStdout(), c.ErrOrStderr(), name, s)
}

// draw draws, or lists, the conversations of a capture, or of a process.
func (f *ladderFlags) draw(out, log io.Writer, name string, s *ladder.Survey) error {
	list, err := f.choose(s)
	if err != nil {
		return err
	}
	for _, w := range ladderWarnings(s) {
		fmt.Fprintf(log, "%s: %s\n", name, w)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: %s", name, nothingToDraw(s))
	}
	drawn, why, err := f.pick(list)
	if err != nil {
		return err
	}
	if f.list {
		if f.asJSON {
			return cli.WriteJSON(out, s.Report(list, nil))
		}
		return writeConversations(out, s, list, nil)
	}
	o := ladder.Options{Conversations: drawn, From: time.Duration(f.from), To: time.Duration(f.to), Limit: f.limit,
		All: f.all}
	if len(f.logs) > 0 {
		if o.Calls, err = f.calls(log, s, &o); err != nil {
			return err
		}
	}
	l, err := s.Draw(o)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.write(out, log, name, s, list, l, why)
}

// check refuses flags that do not go together.
func (f *ladderFlags) check() error {
	switch ext := strings.ToLower(filepath.Ext(f.out)); {
	case f.out != "" && ext != ".svg" && ext != ".html" && ext != ".htm":
		return cli.Usagef("-o %q: give a name that ends in .svg or .html", f.out)
	case f.width != 0 && ext != ".svg":
		return cli.Usagef("--width is for -o with a name in .svg: pages and terminals have their own width")
	case f.width != 0 && (f.width < ladder.MinPicture || f.width > ladderWidest):
		return cli.Usagef("--width %d: give %d to %d", f.width, ladder.MinPicture, ladderWidest)
	case f.limit < 0:
		return cli.Usagef("--limit %d: give a number of rows, or 0 for all of them", f.limit)
	case f.to > 0 && f.to <= f.from:
		return cli.Usagef("--to %v: it is not after --from %v", &f.to, &f.from)
	case f.asJSON && f.out != "":
		return cli.Usagef("--json writes to the standard output: leave -o out")
	case f.list && f.out != "":
		return cli.Usagef("--list draws nothing: leave -o out")
	case f.list && len(f.logs) > 0:
		return cli.Usagef("--list draws nothing: leave --log out")
	}
	return nil
}

// calls reads the logs of calls. It says which of them are not drawn.
func (f *ladderFlags) calls(log io.Writer, s *ladder.Survey, o *ladder.Options) (*ladder.Calls, error) {
	c := s.Calls(o)
	for i, name := range f.logs {
		if slices.Contains(f.logs[:i], name) {
			return nil, cli.Usagef("--log %s: it is there twice", name)
		}
		if err := readCalls(c, name); err != nil {
			return nil, err
		}
	}
	for _, n := range c.Notes {
		fmt.Fprintln(log, n)
	}
	return c, nil
}

func readCalls(c *ladder.Calls, name string) error {
	if name == "" || name == "-" {
		return cli.Usagef("--log %q: give the name of a file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return cli.Usagef("--log: %w", err)
	}
	defer file.Close()
	var unreadable *fs.PathError // such as of a directory
	switch err := c.Read(name, file); {
	case err == nil:
		return nil
	case errors.As(err, &unreadable):
		return cli.Usagef("--log: %w", err)
	default:
		return fmt.Errorf("%s: %w: give a log of calls, as `ramjet run --log=FILE` writes them", name, err)
	}
}

// ladderFile returns the file of a capture, which is read twice: the standard input is copied to one that remove
// removes.
func ladderFile(name string) (path string, remove func(), err error) {
	if name != "-" {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return "", nil, cli.Usagef("%s is a directory: give a pcap or pcapng file", name)
		}
		return name, func() {}, nil
	}
	file, err := os.CreateTemp("", "ramjet-ladder-*")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.Remove(file.Name()) }
	_, err = io.Copy(file, os.Stdin)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("copying the standard input: %w", err)
	}
	return file.Name(), remove, nil
}

// choose returns the conversations that --qp, --host, --from and --to leave.
func (f *ladderFlags) choose(s *ladder.Survey) ([]*ladder.Conversation, error) {
	qp, err := f.number()
	if err != nil {
		return nil, err
	}
	var list []*ladder.Conversation
	for _, c := range s.Conversations {
		if f.qp != "" && !c.Has(uint32(qp)) || f.host != "" && !f.isHost(c.A) && !f.isHost(c.B) {
			continue
		}
		if c.Last.Sub(s.Start) < time.Duration(f.from) || f.to > 0 && c.First.Sub(s.Start) > time.Duration(f.to) {
			continue
		}
		list = append(list, c)
	}
	if len(list) == 0 && len(s.Conversations) > 0 {
		return nil, cli.Usagef("no conversation fits %s: `ramjet ladder CAPTURE --list` lists all %d", f.chosen(),
			len(s.Conversations))
	}
	return list, nil
}

// number returns the number of --qp, or 0 without it.
func (f *ladderFlags) number() (uint64, error) {
	if f.qp == "" {
		return 0, nil
	}
	qp, err := strconv.ParseUint(f.qp, 0, 24)
	if err != nil {
		return 0, cli.Usagef("--qp %q: give a queue pair's number, such as 0x11 or 17", f.qp)
	}
	return qp, nil
}

// chosen returns the flags that choose conversations, as they were given.
func (f *ladderFlags) chosen() string {
	var flags []string
	for _, c := range []struct{ name, value string }{
		{"--qp", f.qp}, {"--host", f.host}, {"--from", f.from.String()}, {"--to", f.to.String()},
	} {
		if c.value != "" && c.value != new(cli.Seconds).String() {
			flags = append(flags, c.name+" "+c.value)
		}
	}
	return strings.Join(flags, " ")
}

// isHost reports whether an end is at the host of --host.
func (f *ladderFlags) isHost(e ladder.End) bool {
	if f.host == e.Host.String() || f.host == e.Node && e.Node != "" ||
		f.host == strconv.Itoa(int(e.Host.LID)) && e.Host.LID != 0 {
		return true
	}
	a, err := netip.ParseAddr(f.host)
	return err == nil && a.Unmap() == e.Host.Addr
}

// pick returns the conversations that are drawn, and why.
func (f *ladderFlags) pick(list []*ladder.Conversation) ([]*ladder.Conversation, string, error) {
	switch f.conversation {
	case "all":
		return list, "", nil
	case "":
		c, why := ladder.Choose(list)
		if len(list) == 1 {
			why = ""
		}
		return []*ladder.Conversation{c}, why, nil
	}
	n, err := strconv.Atoi(f.conversation)
	if err != nil {
		return nil, "", cli.Usagef("--conversation %q: give a number of the list, or all", f.conversation)
	}
	i := slices.IndexFunc(list, func(c *ladder.Conversation) bool { return c.Number == n })
	if i < 0 {
		return nil, "",
			cli.Usagef("--conversation %d: there is no such conversation: `ramjet ladder CAPTURE --list` lists them", n)
	}
	return list[i : i+1], "", nil
}

// nothingToDraw says why a capture has no conversations.
func nothingToDraw(s *ladder.Survey) string {
	switch n := s.Counts; {
	case n.Frames == 0:
		return "the capture is empty"
	case n.Unread == n.Frames:
		links := make([]string, 0, len(n.Links))
		for l := range n.Links {
			links = append(links, strconv.Itoa(int(l)))
		}
		slices.Sort(links)
		return fmt.Sprintf("frames of link type %s, which is not known: capture an Ethernet interface, or `any`",
			strings.Join(links, ", "))
	default:
		return fmt.Sprintf("none of its %s frames is RDMA: RoCE, InfiniBand, or iWARP in plain TCP",
			units.Count(n.Frames))
	}
}

// ladderWarnings are about packets of a capture that are not in a ladder.
func ladderWarnings(s *ladder.Survey) []string {
	var all []string
	if s.Cut {
		all = append(all, "the file ends in the middle of a frame: what is before it was read")
	}
	if n := s.Counts.Truncated; n > 0 {
		all = append(all, fmt.Sprintf("%s of %s frames were cut by the capture: capture with `tcpdump -s 0` for all of them", units.Count(n), units.Count(s.Counts.Frames)))
	}
	if n := s.Counts.Fragments; n > 0 {
		all = append(all, fmt.Sprintf("%s IP fragments were not read", units.Count(n)))
	}
	if s.NoCRCs {
		all = append(all, "the ICRC of no packet is right: the capture was made before it was computed, or was changed. It is left out of account")
	}
	if n := s.Unfollowed; n > 0 {
		all = append(all, fmt.Sprintf("%s packets are of more queue pairs than can be followed", units.Count(n)))
	}
	return all
}
