// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cloudsoda/go-smb2"
	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/channel"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// passwordVariable is the environment variable with the password, where processes of other users do not see it.
const passwordVariable = "RAMJET_SMB_PASSWORD"

// client is the part that commands that connect to a share have in common.
type client struct {
	device, user, domain string
	at                   location // the argument that names it
}

func (o *client) flags(c *cobra.Command) {
	deviceFlag(c, &o.device)
	c.Flags().StringVarP(&o.user, "user", "u", "guest", "the user; the password comes from "+passwordVariable)
	c.Flags().StringVar(&o.domain, "domain", "", "the user's domain")
}

// location is a file or folder of a share.
type location struct{ server, share, name string }

// parseLocation parses //SERVER[:PORT]/SHARE[/PATH].
func parseLocation(s string) (l location, err error) {
	rest, ok := strings.CutPrefix(s, "//")
	server, rest, ok2 := strings.Cut(rest, "/")
	share, name, _ := strings.Cut(rest, "/")
	if !ok || !ok2 || server == "" || share == "" {
		return l, fmt.Errorf("%s: write //SERVER/SHARE/PATH", s)
	}
	return location{server, share, strings.TrimPrefix(path.Clean("/"+name), "/")}, nil
}

// args returns a check of arguments, of which the one at index i is the location.
func (o *client) args(count cobra.PositionalArgs, i int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) (err error) {
		if err = count(c, args); err == nil {
			o.at, err = parseLocation(args[i])
		}
		return err
	}
}

// use mounts the share of the location, and unmounts it in the end.
func (o *client) use(ctx context.Context, f func(share *smb2.Share, name string, c *channel.Conn) error) error {
	l := o.at
	dev, err := openDevice(o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	c, err := smbdirect.Dial(ctx, dev, l.server, smbdirect.Options{})
	if errors.Is(err, cm.ErrNoAddr) || errors.Is(err, verbs.ErrInvalid) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	conn := channel.NetConn(c)
	defer conn.Close()
	d := smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: o.user, Password: os.Getenv(passwordVariable),
		Domain: o.domain}}
	session, err := d.DialConn(ctx, conn, l.server)
	if err != nil {
		return fmt.Errorf("%s as %s: %w", l.server, o.user, err)
	}
	session = session.WithContext(ctx)
	defer session.Logoff()
	share, err := session.Mount(l.share)
	if err != nil {
		return fmt.Errorf("share %s: %w", l.share, err)
	}
	share = share.WithContext(ctx)
	defer share.Umount()
	return f(share, l.name, conn)
}

func lsCommand() *cobra.Command {
	var o client
	c := &cobra.Command{
		Use:     "ls -d DEVICE //SERVER/SHARE[/PATH]",
		Short:   "List a folder or a file of a share",
		Example: "  ramjet-smb ls -d roce:192.0.2.7 -u alice //192.0.2.9/files/music",
		Args:    o.args(cobra.ExactArgs(1), 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return o.use(c.Context(), func(share *smb2.Share, name string, _ *channel.Conn) error {
				info, err := share.Stat(name)
				if err != nil {
					return err
				}
				list := []os.FileInfo{info}
				if info.IsDir() {
					if list, err = share.ReadDir(name); err != nil {
						return err
					}
				}
				for _, e := range list {
					fmt.Fprintf(c.OutOrStdout(), "%v %12d %s %s\n", e.Mode(), e.Size(),
						e.ModTime().Format("2006-01-02 15:04"), e.Name())
				}
				return nil
			})
		},
	}
	o.flags(c)
	return c
}

func getCommand() *cobra.Command {
	var o client
	c := &cobra.Command{
		Use:     "get -d DEVICE //SERVER/SHARE/FILE [TO]",
		Short:   "Copy a file from a share",
		Example: "  ramjet-smb get -d roce:192.0.2.7 -u alice //192.0.2.9/files/disk.img",
		Args:    o.args(cobra.RangeArgs(1, 2), 0),
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), func(share *smb2.Share, name string, _ *channel.Conn) error {
				to := path.Base(name)
				if len(args) == 2 {
					to = args[1]
					if info, err := os.Stat(to); err == nil && info.IsDir() {
						to = filepath.Join(to, path.Base(name))
					}
				}
				from, err := share.Open(name)
				if err != nil {
					return err
				}
				defer from.Close()
				info, err := from.Stat()
				if err != nil {
					return err
				}
				if info.IsDir() {
					return fmt.Errorf("//%s/%s/%s is a folder, and get copies a file", o.at.server, o.at.share, name)
				}
				// Not beyond its end: Linux's ksmbd signs that response wrongly (seen in 6.12).
				return save(to, io.LimitReader(from, info.Size()))
			})
		},
	}
	o.flags(c)
	return c
}

// save writes a file. A file that was there stays if it fails.
func save(to string, from io.Reader) (err error) {
	f, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, from, make([]byte, pieceSize))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// pieceSize is how many bytes of a file are moved at once: no request of go-smb2 has more. Files and shares have
// methods that copy in pieces of their own: io.CopyBuffer does not get to see them.
const pieceSize = 1 << 20

func putCommand() *cobra.Command {
	var o client
	c := &cobra.Command{
		Use:     "put -d DEVICE FILE //SERVER/SHARE[/TO]",
		Short:   "Copy a file to a share",
		Example: "  ramjet-smb put -d roce:192.0.2.7 -u alice disk.img //192.0.2.9/files/disk.img",
		Args:    o.args(cobra.ExactArgs(2), 1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			if info, err := from.Stat(); err != nil || info.IsDir() {
				return cmp.Or(err, fmt.Errorf("%s is a folder, and put copies a file", args[0]))
			}
			return o.use(c.Context(), func(share *smb2.Share, name string, c *channel.Conn) error {
				if info, err := share.Stat(name); err == nil && info.IsDir() {
					name = path.Join(name, filepath.Base(args[0]))
				}
				to, err := share.Create(name)
				if err != nil {
					return err
				}
				buf := make([]byte, min(c.MaxWrite(), pieceSize))
				_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf)
				return errors.Join(err, to.Close())
			})
		},
	}
	o.flags(c)
	return c
}
