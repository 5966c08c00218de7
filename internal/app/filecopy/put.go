// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Copied is the result of copying a file.
type Copied struct {
	Size int64
	Kept int64  // bytes that were already there
	Sum  digest // SHA-256
}

// put is a file being copied to the peer.
type put struct {
	link
	src    *source
	file   uint32
	chain  *chain
	report func(n int64)
	buf    []byte
}

// Put copies a file to name at the server. report, which may be nil, is called with the number of
// additional bytes copied, also from other goroutines.
func (c *Client) Put(ctx context.Context, path, name string, report func(n int64)) (Copied, error) {
	src, err := openSource(path)
	if err != nil {
		return Copied{}, err
	}
	defer src.close()
	c.file++
	return c.link.put(ctx, src, c.file, name, report)
}

// put copies a file to name at the peer, where a [session] takes it.
func (l link) put(ctx context.Context, src *source, file uint32, name string, report func(n int64)) (Copied, error) {
	if report == nil {
		report = func(int64) {}
	}
	p := &put{link: l, src: src, file: file, chain: newChain(), report: report,
		buf: make([]byte, min(segmentSize, max(src.size(), 1)))}
	if err := l.send(ctx, open{File: p.file, Size: uint64(src.size()), attr: attrOf(src.info),
		Name: name}); err != nil {
		return Copied{}, err
	}
	got, err := p.run(ctx)
	if err != nil && !errors.Is(err, ErrLost) && ctx.Err() == nil {
		gone := errors.Is(err, ErrChanged) || errors.Is(err, fs.ErrNotExist)
		if lost := l.send(ctx, abort{p.file, gone}); lost != nil {
			return got, lost
		}
	}
	return got, err
}

func (p *put) run(ctx context.Context) (Copied, error) {
	first, err := p.resume(ctx)
	if err != nil {
		return Copied{}, err
	}
	done := Copied{Size: p.src.size(), Kept: min(int64(first)*segmentSize, p.src.size())}
	p.report(done.Kept)
	if err := p.write(ctx, first); err != nil {
		return done, err
	}
	if err := p.src.unchanged(); err != nil {
		return done, err
	}
	done.Sum = p.chain.sum()
	if err := p.send(ctx, finish{p.file, done.Sum}); err != nil {
		return done, err
	}
	_, err = p.answer(ctx, p.file)
	return done, err
}

// resume compares the server's segments with the file, and returns the first segment to write.
func (p *put) resume(ctx context.Context) (first int, err error) {
	total, seen := uint32(1), uint32(0)
	for same := true; seen < total; {
		m, err := p.answer(ctx, p.file)
		if err != nil {
			return 0, err
		}
		h, ok := m.(have)
		if !ok || int64(h.Total) > int64(segments(p.src.size())) || h.Total > 0 && len(h.Sums) == 0 ||
			uint32(len(h.Sums)) > h.Total-seen {
			return 0, unexpected(m)
		}
		total = h.Total
		for _, sum := range h.Sums {
			seen++
			if !same {
				continue
			}
			if err := p.chain.read(ctx, p.src.f, p.src.size(), p.buf); err != nil {
				return 0, err
			}
			if same = p.chain.sum() == sum; same {
				first++
			}
		}
	}
	if total == 0 {
		return 0, nil
	}
	return first, p.send(ctx, start{p.file, uint32(first)})
}

// write writes the segments from first on as they are granted, and completes the chain.
func (p *put) write(ctx context.Context, first int) error {
	slots := make(chan struct{}, window)          // so many are in memory, even if the peer grants more
	waits, cancel := context.WithCancelCause(ctx) // ends with the first error; WRITEs in flight go on
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for p.chain.next < segments(p.src.size()) {
			if err := p.chain.read(waits, p.src.f, p.src.size(), p.buf); err != nil {
				cancel(err)
				return
			}
		}
	})
	for n := first; n < segments(p.src.size()); n++ {
		g, err := p.granted(waits, n)
		if err != nil {
			cancel(err) // keeps the first error
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := p.writeSegment(ctx, g); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(waits)
}

// granted waits for the memory of segment n.
func (p *put) granted(ctx context.Context, n int) (grant, error) {
	m, err := p.answer(ctx, p.file)
	if err != nil {
		return grant{}, err
	}
	g, ok := m.(grant)
	if _, length := span(n, p.src.size()); !ok || int64(g.Segment) != int64(n) || int64(g.Length) != int64(length) {
		return grant{}, unexpected(m)
	}
	return g, nil
}

// writeSegment writes a segment to its granted memory.
func (p *put) writeSegment(ctx context.Context, g grant) error {
	off, n := span(int(g.Segment), p.src.size())
	seg, err := p.src.load(p.conn.PD(), off, n)
	if err != nil {
		if p.src.unchanged() != nil {
			err = ErrChanged
		}
		return err
	}
	defer seg.close()
	if err := p.src.unchanged(); err != nil {
		return err
	}
	to := verbs.Remote{Addr: g.Addr, Key: verbs.Key(g.Key)}
	if err := p.conn.Write(ctx, seg.mr.SGE(0, n), to); err != nil {
		return p.lost(ctx, err)
	}
	if err := p.send(ctx, written{p.file, g.Segment}); err != nil {
		return err
	}
	p.report(int64(n))
	return nil
}
