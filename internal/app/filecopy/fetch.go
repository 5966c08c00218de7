// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxEntries is how many entries of one directory a client takes.
const maxEntries = 1 << 20

// permitted returns why the server refuses a message, or nil.
func (c *session) permitted(m message) error {
	switch m.(type) {
	case list, fetch:
		if !c.srv.Readable {
			return errors.New("the server lets nobody read: start it with --read")
		}
	case mkdir, setAttr, open:
		if c.srv.ReadOnly {
			return errors.New("the server lets nobody write: it was started with --read-only")
		}
	}
	return nil
}

// refuse tells the client why a message is not obeyed.
func (c *session) refuse(ctx context.Context, m message, err error) error {
	switch m := m.(type) {
	case open:
		return c.fail(ctx, m.File, err)
	case fetch:
		return c.fail(ctx, m.File, err)
	}
	return c.fail(ctx, 0, err)
}

// list sends the contents of a directory, some entries at a time, or the one entry of anything else.
func (c *session) list(ctx context.Context, l list) error {
	name, err := local(l.Name)
	if err != nil {
		return c.fail(ctx, 0, err)
	}
	info, err := c.srv.Root.Stat(name)
	if err != nil {
		return c.fail(ctx, 0, err)
	}
	if l.Self || !info.IsDir() {
		e := entryOf(info)
		if err := checkBase(e.Base); err != nil {
			return c.fail(ctx, 0, err)
		}
		return c.send(ctx, entries{Last: true, List: []Entry{e}})
	}
	dir, err := c.srv.Root.Open(name)
	if err != nil {
		return c.fail(ctx, 0, err)
	}
	defer dir.Close()
	var m entries
	for size := 2; ; {
		found, err := dir.ReadDir(256)
		for _, d := range found {
			info, err := d.Info()
			if err != nil || IsPartial(d.Name()) || checkBase(d.Name()) != nil {
				continue // gone, incomplete, or not to be named here
			}
			e := entryOf(info)
			if n := entryHeader + len(e.Base); size+n > maxMessage {
				if err := c.send(ctx, m); err != nil {
					return err
				}
				m.List, size = m.List[:0], 2
			}
			m.List, size = append(m.List, e), size+entryHeader+len(e.Base)
		}
		switch {
		case errors.Is(err, io.EOF):
			m.Last = true
			return c.send(ctx, m)
		case err != nil:
			return c.fail(ctx, 0, err)
		}
	}
}

// fetch copies a file to the client, which then is the receiver.
func (c *session) fetch(ctx context.Context, m fetch) error {
	if c.in != nil {
		return fmt.Errorf("%w: a file is fetched while another is open", errMessage)
	}
	src, err := c.source(m.Name)
	if err != nil {
		return c.fail(ctx, m.File, err)
	}
	defer src.close()
	c.gaveUp = nil
	got, err := c.put(ctx, src, m.File, "", nil)
	c.srv.tell(Event{Peer: c.conn.PeerAddr(), Name: m.Name, Size: got.Size, Kept: got.Kept, Sent: true, Err: err})
	if err != nil {
		c.gaveUp = &m.File
	}
	if peer := (*ServerError)(nil); err == nil || errors.Is(err, ErrLost) || errors.As(err, &peer) || ctx.Err() != nil {
		if peer != nil {
			return nil // the client knows
		}
		return err
	}
	return c.fail(ctx, m.File, err)
}

// answered returns the file of a receiver's message.
func answered(m message) (file uint32, ok bool) {
	switch m := m.(type) {
	case have:
		return m.File, true
	case grant:
		return m.File, true
	case done:
		return m.File, true
	case failure:
		return m.File, true
	}
	return 0, false
}

// source opens a file below the root. It is not mapped: a client that stalls would keep its lease
// longer than the system does.
func (c *session) source(name string) (*source, error) {
	name, err := local(name)
	if err != nil {
		return nil, err
	}
	info, err := c.srv.Root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, errors.New("not a regular file")
	}
	f, err := c.srv.Root.Open(name)
	if err != nil {
		return nil, err
	}
	return newSource(f, name, false)
}

// Lookup returns the entry of a name at the server, through symbolic links: not ".".
func (c *Client) Lookup(ctx context.Context, name string) (*Entry, error) {
	all, err := c.list(ctx, list{true, name})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%w: %d entries of one name", errMessage, len(all))
	}
	return &all[0], nil
}

// List returns the entries of a directory at the server, or the one entry of a file, in no order. Files
// that are incomplete are left out.
func (c *Client) List(ctx context.Context, name string) ([]Entry, error) {
	return c.list(ctx, list{false, name})
}

func (c *Client) list(ctx context.Context, l list) ([]Entry, error) {
	if err := c.send(ctx, l); err != nil {
		return nil, err
	}
	var all []Entry
	for {
		m, err := c.answer(ctx, 0)
		if err != nil {
			return nil, err
		}
		e, ok := m.(entries)
		if !ok || len(e.List) == 0 && !e.Last {
			return nil, unexpected(m)
		}
		if all = append(all, e.List...); len(all) > maxEntries {
			return nil, fmt.Errorf("%w: a directory of more than %d entries", ErrLost, maxEntries)
		}
		if e.Last {
			return all, nil
		}
	}
}

// Get copies a file of the server to a name below root. report, which may be nil, is called with the
// number of additional bytes copied. An interrupted Get resumes as [Client.Put] does.
func (c *Client) Get(ctx context.Context, name string, root *os.Root, to string, report func(n int64)) (Copied, error) {
	if report == nil {
		report = func(int64) {}
	}
	c.file++
	if err := c.send(ctx, fetch{c.file, name}); err != nil {
		return Copied{}, err
	}
	m, err := c.answer(ctx, c.file)
	if err != nil {
		return Copied{}, err
	}
	offer, ok := m.(open)
	if !ok || offer.File != c.file || offer.Name != "" {
		return Copied{}, unexpected(m)
	}
	offer.Name = to
	g := &get{file: c.file, report: report}
	g.session = session{link: c.link, pd: c.conn.PD(), srv: &Server{Root: root, Report: g.ended}}
	defer g.close()
	if err := g.open(ctx, offer); err != nil {
		return Copied{}, err
	}
	if g.in == nil { // it cannot be taken; the server knows, and gives it up
		return Copied{}, g.lastFailure
	}
	err = g.run(ctx)
	return g.got, err
}

// get is a file being fetched: the client has the server's role for a file that is copied to it.
type get struct {
	session
	file   uint32
	report func(n int64)
	kept   bool // reported
	got    Copied
	err    error // of the file, once it has ended
}

// ended is called when the file is complete, or will not be.
func (g *get) ended(e Event) { g.got.Size, g.got.Kept, g.err = e.Size, e.Kept, e.Err }

// close keeps the verified part of a file that has not ended.
func (g *get) close() {
	if g.in != nil {
		g.in.interrupted()
	}
}

// run takes the file.
func (g *get) run(ctx context.Context) error {
	for g.in != nil {
		if g.in.begun && !g.kept {
			g.kept = true
			g.report(g.in.kept)
		}
		m, err := g.recv(ctx)
		if err != nil {
			return err
		}
		if err := g.message(ctx, m); err != nil {
			return err
		}
	}
	return g.err
}

// message takes a message of the server about the file.
func (g *get) message(ctx context.Context, m message) error {
	size, n := g.in.size, 0
	switch m := m.(type) {
	case failure, abort:
		return g.givenUp(ctx, m)
	case finish:
		g.got.Sum = m.Sum
	case written:
		if int64(m.Segment) < int64(segments(size)) {
			_, n = span(int(m.Segment), size)
		}
	case start:
	default:
		return unexpected(m)
	}
	if err := g.handle(ctx, m); err != nil {
		return err
	}
	g.report(int64(n))
	return nil
}

// givenUp returns why a file ends early: the failure here, or the server's reason after its abort.
func (g *get) givenUp(ctx context.Context, m message) error {
	a, ok := m.(abort)
	if !ok || a.File != g.file {
		return nil // of another file
	}
	failed := g.in.failure
	if err := g.handle(ctx, m); err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	m, err := g.link.answer(ctx, g.file)
	if err != nil {
		return err
	}
	return unexpected(m)
}

var _ fs.FileInfo = (*Entry)(nil)
