// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Exit statuses.
const (
	exitFailed      = 1   // the command ran and failed
	exitUsage       = 2   // the command line asks for what cannot be
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// runError is what failed after the command line was found to be good.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// usageError is the command line's fault although a command noticed it while it ran, such
// as a device that is not there.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// isUsage says whether an error of Execute is the command line's fault.
func isUsage(err error) bool {
	return errors.As(err, new(usageError)) || !errors.As(err, new(runError))
}

// exitStatus returns the exit status for what Execute returned.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return 0
	case isUsage(err):
		return exitUsage
	}
	return exitFailed
}

// output is standard output. It keeps the first error, so that a command whose results did
// not get out fails.
type output struct {
	file *os.File
	mu   sync.Mutex
	err  error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failure returns the first error of a write.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.file
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// group is a command that has subcommands only.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	g.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	g.SuggestionsMinimumDistance = 2
	g.AddCommand(subs...)
	return g
}

// unknownCommand says in one line that c has no such subcommand, and what was meant perhaps.
func unknownCommand(c *cobra.Command, name string) error {
	if s := c.SuggestionsFor(name); len(s) > 0 {
		return usagef("unknown command %q: did you mean %s?", name, strings.Join(s, " or "))
	}
	return usagef("unknown command %q: `%s --help` lists them", name, c.CommandPath())
}

// leaf is a command that does something. Whatever fails before run is the command line's
// fault; what run returns is not, unless it is a usageError.
func leaf(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := run(c, args); err != nil {
			return runError{err}
		}
		return nil
	}
	return c
}

// noArgs is for commands that take flags only.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is too much: %s takes no arguments, only flags", args[0], c.CommandPath())
	}
	return nil
}

// deviceFlags are the flags of the commands that open one device.
type deviceFlags struct {
	device string
	pcap   string
}

// add adds --device and --pcap to a command.
func (f *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.device, "device", "d", "roce:127.0.0.1", "`device` to open, such as roce:192.0.2.7; `ramjet devices` lists them")
	addPcapFlag(c, &f.pcap)
}

// addPcapFlag adds --pcap to a command.
func addPcapFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "pcap", "", "write every packet to `file` as pcapng, for Wireshark")
	c.MarkFlagFilename("pcap", "pcapng", "pcap")
}

// with calls run with the device, and closes it and the recording, if one is wanted, after
// that.
func (f *deviceFlags) with(log io.Writer, run func(dev *verbs.Device) error) (err error) {
	dev, done, err := openDevice(f.device, f.pcap, log)
	if err != nil {
		return err
	}
	defer func() {
		if derr := done(); err == nil {
			err = derr
		}
	}()
	return run(dev)
}

// kindOnly says whether the device is named by its kind alone, such as "iwarp:", or with
// options, "iwarp:?congestion=cubic".
func (f *deviceFlags) kindOnly() bool {
	kind, options := f.kind()
	return f.device == kind+options
}

// kind returns the kind of the device with its colon, and its options with their question
// mark; empty: the default.
func (f *deviceFlags) kind() (kind, options string) {
	if f.device == "" {
		return "", ""
	}
	kind, rest, _ := strings.Cut(f.device, ":")
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		options = rest[i:]
	}
	return kind + ":", options
}

// openDevice opens a device, and a recording if pcap is not empty. done closes both and says
// on log how many packets were recorded; its error is that of the recording. Calling it twice
// is harmless.
func openDevice(name, pcap string, log io.Writer) (dev *verbs.Device, done func() error, err error) {
	rec, err := newRecording(pcap, name)
	if err != nil {
		return nil, nil, err
	}
	opts, err := tlsOptions(name, log)
	if err == nil {
		dev, err = ramjet.Open(name, append(opts, rec.options()...)...)
	}
	if err != nil {
		rec.discard()
		return nil, nil, usageError{err}
	}
	return dev, func() error {
		dev.Close()
		return rec.finish(log)
	}, nil
}

// writeJSON writes v, indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// byteSize is a flag: a number of bytes, perhaps with K, M or G for powers of 1024.
type byteSize int

func (s *byteSize) String() string { return strconv.Itoa(int(*s)) }

// Type is the word for the value in a command's help.
func (s *byteSize) Type() string { return "bytes" }

// Set parses text such as 64, 4K, 1MiB.
func (s *byteSize) Set(text string) error {
	digits := strings.TrimRight(strings.ToUpper(text), "KMGIB")
	shift, ok := map[string]int{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30,
		"GIB": 30}[strings.ToUpper(text[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt>>shift {
		return fmt.Errorf("%q is no size: give bytes, or such as 64K or 1M", text)
	}
	*s = byteSize(n << shift)
	return nil
}

// formatSize writes a size the way that byteSize reads it: 64 B, 4 KiB, 1 MiB.
func formatSize(n int) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if u := 1 << (30 - 10*i); n >= u && n%u == 0 {
			return fmt.Sprintf("%d %s", n/u, unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}
