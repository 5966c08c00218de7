// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// session is the server's side of a connection.
type session struct {
	link
	srv *Server
	pd  *verbs.PD
	in  *incoming // the file being written; nil: none

	counted int // its segments in the server's count

	gaveUp      *uint32 // the last file that it could not send: messages of the client before it knew are ignored
	lastFailure error   // the last failure that was sent to the peer
}

// run answers the client until the connection ends.
func (c *session) run(ctx context.Context) error {
	for {
		m, err := c.recv(ctx)
		if err == nil {
			err = c.handle(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// handle handles a message. Its error ends the connection; errors of a file do not.
func (c *session) handle(ctx context.Context, m message) error {
	if err := c.permitted(m); err != nil {
		return c.refuse(ctx, m, err)
	}
	if n, ok := answered(m); ok && c.gaveUp != nil && *c.gaveUp == n {
		return nil
	}
	switch m := m.(type) {
	case list:
		return c.list(ctx, m)
	case fetch:
		return c.fetch(ctx, m)
	case stat:
		kind, err := c.stat(m.Name)
		if err != nil {
			return c.fail(ctx, 0, err)
		}
		return c.send(ctx, info{kind})
	case mkdir:
		return c.answer(ctx, c.mkdir(m))
	case setAttr:
		return c.answer(ctx, c.setAttr(m.Name, m.attr))
	case open:
		return c.open(ctx, m)
	case start:
		if in := c.current(m.File); in != nil {
			return c.begin(ctx, int(m.Segment))
		}
	case written:
		if in := c.current(m.File); in != nil && in.failure == nil {
			return c.written(ctx, int(m.Segment))
		}
	case finish:
		if in := c.current(m.File); in != nil {
			return c.finish(ctx, m.Sum)
		}
	case abort:
		if in := c.current(m.File); in != nil {
			in.keep = !m.Discard
			c.end(errors.New("the client gave up"))
		}
	default:
		return unexpected(m)
	}
	return nil // of a file that has failed already
}

// current returns the file being written, if it has that number.
func (c *session) current(file uint32) *incoming {
	if c.in != nil && c.in.file == file {
		return c.in
	}
	return nil
}

// answer answers a request that does not concern the file being written.
func (c *session) answer(ctx context.Context, err error) error {
	if err != nil {
		return c.fail(ctx, 0, err)
	}
	return c.send(ctx, done{})
}

// fail reports an error to the client.
func (c *session) fail(ctx context.Context, file uint32, err error) error {
	c.lastFailure = err
	text := err.Error()
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		text = p.Err.Error() // the client knows the name
	}
	return c.send(ctx, failure{file, strings.ToValidUTF8(text, "?")})
}

// local converts a client's name to the system's form.
func local(name string) (string, error) {
	switch {
	case name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%q is not a name below the served directory: give one without a leading slash", name)
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return "", fmt.Errorf("%q leaves the served directory", name)
	case IsPartial(path.Base(name)):
		return "", fmt.Errorf("%q: names that end in %s are those of incomplete files: give it another name", name,
			partialSuffix)
	}
	return filepath.FromSlash(path.Clean(name)), nil
}

func (c *session) stat(name string) (FileKind, error) {
	name, err := local(name)
	if err != nil {
		return None, err
	}
	info, err := c.srv.Root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return None, nil
	case err != nil:
		return None, err
	case info.IsDir():
		return Dir, nil
	case info.Mode().IsRegular():
		return File, nil
	}
	return Other, nil
}

func (c *session) mkdir(m mkdir) error {
	name, err := local(m.Name)
	if err != nil {
		return err
	}
	err = c.srv.Root.Mkdir(name, fs.FileMode(m.Mode)&fs.ModePerm)
	if errors.Is(err, fs.ErrExist) {
		if info, serr := c.srv.Root.Stat(name); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

func (c *session) setAttr(name string, a attr) error {
	name, err := local(name)
	if err != nil {
		return err
	}
	t := time.Unix(0, a.MTime)
	if err := c.srv.Root.Chtimes(name, t, t); err != nil {
		return err
	}
	return c.srv.Root.Chmod(name, fs.FileMode(a.Mode)&fs.ModePerm)
}

// open prepares for a file and offers its existing contents.
func (c *session) open(ctx context.Context, m open) error {
	if c.in != nil {
		return fmt.Errorf("%w: a file is opened while another is open", errMessage)
	}
	name, err := local(m.Name)
	if err == nil && m.Size > maxFile {
		err = fmt.Errorf("a file of %d bytes", m.Size)
	}
	if err == nil {
		err = c.srv.take(ctx, name)
	}
	if err != nil {
		return c.fail(ctx, m.File, err)
	}
	in, err := newIncoming(c.srv.Root, c.pd, name, m)
	if err != nil {
		c.srv.release(name)
		return c.fail(ctx, m.File, err)
	}
	c.in = in
	if err := c.offer(ctx); err != nil {
		return err
	}
	if in.offered > 0 || in.failure != nil {
		return nil
	}
	return c.begin(ctx, 0)
}

// offer sends the client the digests of the existing contents.
func (c *session) offer(ctx context.Context) error {
	in := c.in
	var buf []byte
	if in.offered > 0 {
		buf = make([]byte, 1<<20)
	}
	h := have{File: in.file, Total: uint32(in.offered)}
	for chain := newChain(); chain.next < in.offered; {
		in.states = append(in.states, chain.clone())
		if err := chain.read(ctx, in.basis, in.size, buf); err != nil {
			return c.broken(ctx, err)
		}
		c.note() // the client waits for this
		h.Sums = append(h.Sums, chain.sum())
		if chain.next == in.offered {
			in.states = append(in.states, chain)
		}
		if len(h.Sums) == maxSums && chain.next < in.offered {
			if err := c.send(ctx, h); err != nil {
				return err
			}
			h.Sums = h.Sums[:0]
		}
	}
	return c.send(ctx, h)
}

// begin prepares for the segments from first on, and grants some.
func (c *session) begin(ctx context.Context, first int) error {
	in := c.in
	if in.begun || in.failure != nil || first < 0 || first > in.offered { // negative where int is short
		return fmt.Errorf("%w: a start at segment %d", errMessage, first)
	}
	if err := in.begin(first); err != nil {
		return c.broken(ctx, err)
	}
	return c.grant(ctx)
}

// grant grants the client memory, as long as there are segments.
func (c *session) grant(ctx context.Context) error {
	in := c.in
	for in.granted < segments(in.size) && in.granted < in.chain.next+in.window {
		if len(in.segments) > 0 && c.srv.granted.Load() >= maxSegments {
			break // it goes on when one of them is written
		}
		n := in.granted
		seg, err := in.grant(n)
		if err != nil {
			return c.broken(ctx, err)
		}
		c.count(len(in.segments))
		r := seg.mr.Remote()
		if err := c.send(ctx, grant{in.file, uint32(n), r.Addr, uint32(r.Key), uint32(seg.mr.Len())}); err != nil {
			return err
		}
	}
	return nil
}

// count tells the server how many segments are granted now.
func (c *session) count(n int) {
	c.srv.granted.Add(int64(n - c.counted))
	c.counted = n
}

// written handles a segment that the client has written.
func (c *session) written(ctx context.Context, n int) error {
	ok, err := c.in.written(n)
	c.count(len(c.in.segments))
	switch {
	case !ok:
		return fmt.Errorf("%w: segment %d is written that was not granted", errMessage, n)
	case err != nil:
		return c.broken(ctx, err)
	}
	return c.grant(ctx)
}

// broken tells the client that its file failed. The memory stays until the client has confirmed
// that it writes no more.
func (c *session) broken(ctx context.Context, err error) error {
	c.in.failure = err
	return c.fail(ctx, c.in.file, err)
}

// finish completes the file, or reports why it cannot.
func (c *session) finish(ctx context.Context, sum digest) error {
	in := c.in
	if in.failure != nil { // already reported
		c.end(in.failure)
		return nil
	}
	err := in.finish(sum)
	c.end(err)
	if err != nil {
		return c.fail(ctx, in.file, err)
	}
	return c.send(ctx, done{in.file})
}

// end ends the current file.
func (c *session) end(err error) {
	in := c.in
	if err != nil {
		in.interrupted()
	}
	c.in = nil
	c.count(0)
	c.srv.release(in.name)
	c.srv.tell(Event{Peer: c.conn.PeerAddr(), Name: in.name, Size: in.size, Kept: in.kept, Err: err})
}
