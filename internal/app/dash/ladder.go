// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

const (
	// maxLadders is of how many queue pairs packets are watched at the same time.
	maxLadders = 4
	// ladderLease is for how long they are watched after the last request.
	ladderLease = 5 * time.Second
	// ladderPackets is how many packets a ladder has.
	ladderPackets = 200
)

// Ladder is a drawing of a queue pair's last packets.
type Ladder struct {
	SVG     string   `json:"svg"` // empty: there were no packets yet
	Notes   []string `json:"notes"`
	Packets int      `json:"packets"` // that are drawn
	Seen    uint64   `json:"seen"`    // since watching began
}

// watcher is what statsocket.Watcher is.
type watcher interface {
	Last(ctx context.Context, most int) (*observe.Packets, error)
	Close() error
}

func watchProcess(ctx context.Context, of qpKey) (watcher, error) {
	return statsocket.Watch(ctx, of.pid, of.device, of.qpn)
}

// ladders watches the packets of queue pairs that pages show.
type ladders struct {
	watch func(context.Context, qpKey) (watcher, error)
	lock  sync.Mutex
	open  map[qpKey]*watched
	ended bool
}

// watched is a queue pair whose packets are watched.
type watched struct {
	lock sync.Mutex // of w, which answers one at a time
	w    watcher    // nil: closed
	end  *time.Timer
}

func newLadders(watch func(context.Context, qpKey) (watcher, error)) *ladders {
	return &ladders{watch: watch, open: map[qpKey]*watched{}}
}

// last returns the ladder of a queue pair's last packets, and has them watched for some seconds more.
func (l *ladders) last(ctx context.Context, of qpKey) (*Ladder, error) {
	w, err := l.get(ctx, of)
	if err != nil {
		return nil, err
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.w == nil {
		return nil, errors.New("the packets are no longer watched: ask again")
	}
	p, err := w.w.Last(ctx, ladderPackets)
	if err != nil {
		l.drop(of, w)
		w.w.Close()
		w.w = nil
		return nil, err
	}
	return draw(p)
}

// get returns what watches a queue pair, which begins if nothing does.
func (l *ladders) get(ctx context.Context, of qpKey) (*watched, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if w := l.open[of]; w != nil {
		w.end.Reset(ladderLease)
		return w, nil
	}
	if l.ended || len(l.open) >= maxLadders {
		return nil, fmt.Errorf("the packets of %d queue pairs are watched, which is the most: close another ladder first", maxLadders)
	}
	conn, err := l.watch(ctx, of)
	if err != nil {
		return nil, err
	}
	w := &watched{w: conn}
	w.end = time.AfterFunc(ladderLease, func() {
		l.drop(of, w)
		w.close()
	})
	l.open[of] = w
	return w, nil
}

// drop forgets what watched a queue pair.
func (l *ladders) drop(of qpKey, w *watched) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.open[of] == w {
		delete(l.open, of)
	}
	w.end.Stop()
}

func (w *watched) close() {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.w != nil {
		w.w.Close()
		w.w = nil
	}
}

// close ends all.
func (l *ladders) close() {
	l.lock.Lock()
	open := l.open
	l.open, l.ended = map[qpKey]*watched{}, true
	l.lock.Unlock()
	for _, w := range open {
		w.end.Stop()
		w.close()
	}
}

// draw draws packets.
func draw(p *observe.Packets) (*Ladder, error) {
	out := &Ladder{Seen: p.Seen, Notes: []string{}}
	if len(p.Packets) == 0 {
		return out, nil
	}
	s, err := ladder.Take(func(to func(*capture.Packet)) (capture.Counts, error) { return capture.FromProcess(p, to) })
	if err != nil {
		return nil, err
	}
	l, err := s.Draw(ladder.Options{Conversations: s.Conversations})
	if err != nil {
		return nil, err
	}
	var tally ladder.Tally
	for _, c := range s.Conversations {
		for i, n := range c.Tally {
			tally[i] += n
		}
	}
	if tally.Total() > 0 {
		out.Notes = append(out.Notes, tally.String())
	}
	var svg strings.Builder
	if err := l.WriteSVG(&svg, nil); err != nil {
		return nil, err
	}
	out.SVG, out.Packets = svg.String(), l.Packets
	return out, nil
}
