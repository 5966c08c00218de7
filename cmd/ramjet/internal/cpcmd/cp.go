// SPDX-License-Identifier: Apache-2.0

// Package cpcmd is `ramjet cp`, `ramjet ls` and `ramjet serve`: files over RDMA.
package cpcmd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// cpFlags are the flags of cp.
type cpFlags struct {
	dev       cli.DeviceFlags
	recursive bool
	verbose   bool
	json      bool
	timeout   time.Duration
}

// NewCp returns `ramjet cp`.
func NewCp() *cobra.Command {
	f := &cpFlags{}
	c := &cobra.Command{
		Use:   "cp [-r] SOURCE... HOST[:PORT]:PATH | cp [-r] HOST[:PORT]:PATH... TARGET",
		Short: "Copy files and directories to a `ramjet serve`, or from one",
		Long: "Copy files from here to a `ramjet serve`, or from one to here. PATH is relative to the directory that is\n" +
			"served; if empty, it is that directory, and as a source everything in it. Every file is verified by the SHA-256 of\n" +
			"its whole content, and gets its name only when it is complete. An interrupted copy, started again, continues where\n" +
			"it stopped. Permissions and modification times are kept. Symbolic links and special files below a SOURCE are\n" +
			"skipped.",
		Example: "  ramjet cp -d roce:192.0.2.9 image.iso 192.0.2.7:\n" +
			"  ramjet cp -r photos notes.txt [2001:db8::7]:7175:backup/\n" +
			"  ramjet cp -r 192.0.2.7:photos here",
		Args: cli.Arguments(2, -1),
	}
	f.dev.Add(c)
	c.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show the SHA-256 of each file")
	c.Flags().BoolVar(&f.json, "json", false, "write what was copied as JSON")
	cli.AddTimeoutFlag(c, &f.timeout)
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		last := len(args) - 1
		address, path, err := parseTarget(args[last])
		if err != nil {
			if isRemote(args[0]) {
				return f.fetch(c, args[:last], args[last])
			}
			return err
		}
		if isRemote(args[0]) {
			return cli.Usagef("%s and %s are both at servers, and one side has to be here: fetch to a directory here first", args[0], args[last])
		}
		f.dev.Peer = address
		plan, err := planCopy(args[:last], f.recursive)
		if err != nil {
			return err
		}
		return f.dev.With(c, func(dev *verbs.Device) error {
			client, err := filecopy.Dial(c.Context(), dev, address, f.timeout)
			if err != nil {
				return cli.DialError(err, dev, "`ramjet serve`")
			}
			defer client.Close()
			target, as, err := targetAt(c.Context(), client, plan, path)
			if err != nil {
				return err
			}
			run := &copyRun{to: atServer{client}, plan: plan, verbose: f.verbose, json: f.json, device: dev.Name(),
				out: c.OutOrStdout(), log: c.ErrOrStderr()}
			return run.run(c.Context(), target, as)
		})
	})
}

// isRemote reports whether a source looks like a target and is not a local file.
func isRemote(source string) bool {
	_, _, err := parseTarget(source)
	if err != nil {
		return false
	}
	_, err = os.Lstat(source)
	return err != nil
}

// parseTarget parses HOST:PATH or HOST:PORT:PATH, where HOST may be an IPv6 address in brackets.
func parseTarget(text string) (address, path string, err error) {
	bad := cli.Usagef("%q is not a target: give HOST:PATH, HOST:PORT:PATH or [IPV6]:PATH", text)
	host, rest, ok := strings.Cut(text, ":")
	if inner, bracket := strings.CutPrefix(text, "["); bracket {
		if host, rest, ok = strings.Cut(inner, "]:"); !ok {
			return "", "", bad
		}
	}
	if !ok || host == "" {
		return "", "", bad
	}
	port := servePort
	if digits, after, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err == nil && n == 0 {
			return "", "", bad
		}
		if err == nil {
			port, rest = int(n), after
		} else if digits != "" && strings.Trim(digits, "0123456789") == "" {
			return "", "", cli.Usagef("%q: %s is not a port: give 1 to 65535", text, digits)
		}
	}
	if strings.HasPrefix(rest, ":") && !strings.HasPrefix(text, "[") {
		return "", "", fmt.Errorf("%w (IPv6 addresses in brackets)", bad)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), rest, nil
}
