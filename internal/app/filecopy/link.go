// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// probeAfter is how long a side waits for a message before it makes sure that the peer still
// lives.
const probeAfter = 5 * time.Second

// link sends and receives messages.
type link struct {
	conn   *cm.Conn
	active func()                  // called for each; nil: a client's
	reason *atomic.Pointer[string] // why the peer ends the connection, once it has said so
}

func newLink(conn *cm.Conn, active func()) link {
	return link{conn, active, new(atomic.Pointer[string])}
}

// note notes a message.
func (l link) note() {
	if l.active != nil {
		l.active()
	}
}

// connOptions are the options of both sides' connections: more receives than messages can be in
// flight, so neither side has to wait.
func connOptions() []cm.Option {
	return []cm.Option{cm.WithDepth(4*window, 4*window), cm.WithRecvSize(maxMessage)}
}

func (l link) send(ctx context.Context, m message) error {
	err := l.conn.Send(ctx, m.append(nil))
	if err == nil {
		l.note()
	}
	return l.lost(ctx, err)
}

// recv waits for the next message.
func (l link) recv(ctx context.Context) (message, error) {
	for {
		limit, cancel := context.WithTimeout(ctx, probeAfter)
		b, err := l.conn.Recv(limit)
		cancel()
		if err == nil {
			m, err := parse(b.Bytes())
			b.Release()
			if f, ok := m.(failure); ok && f.File == everyFile {
				l.reason.Store(&f.Text)
				return nil, l.lost(ctx, io.EOF)
			}
			if err == nil {
				l.note()
			}
			return m, err
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return nil, l.lost(ctx, err)
		}
		// Any live peer's device acknowledges a WRITE of no bytes.
		if _, err := l.conn.Do(ctx, &verbs.SendWR{Op: verbs.OpWrite}); err != nil {
			return nil, l.lost(ctx, err)
		}
	}
}

// lost turns an error of the connection into ErrLost, with the reason that the peer gave.
func (l link) lost(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if l.reason.Load() == nil && l.active == nil {
		l.readReason(ctx)
	}
	switch why := l.reason.Load(); {
	case why != nil:
		return fmt.Errorf("%w: %s", ErrLost, Printable(*why))
	case errors.Is(err, io.EOF):
		return ErrLost
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// readReason looks for the reason among the messages that came before the connection ended.
func (l link) readReason(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		b, err := l.conn.Recv(limit)
		if err != nil {
			return
		}
		m, _ := parse(b.Bytes())
		b.Release()
		if f, ok := m.(failure); ok && f.File == everyFile {
			l.reason.Store(&f.Text)
			return
		}
	}
}

// answer waits for the next message about the file of that number; 0 is no file.
func (l link) answer(ctx context.Context, file uint32) (message, error) {
	for {
		m, err := l.recv(ctx)
		if err != nil {
			return nil, err
		}
		of := uint32(0)
		switch m := m.(type) {
		case failure:
			if m.File == file {
				return nil, &ServerError{Printable(m.Text)}
			}
			continue
		case abort:
			of = m.File
		case done:
			of = m.File
		case have:
			of = m.File
		case grant:
			of = m.File
		case open:
			of = m.File
		}
		if of == file {
			return m, nil
		}
	}
}
