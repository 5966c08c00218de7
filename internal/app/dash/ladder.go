// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/wire/ib"
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
	Endings []Ending `json:"endings"` // of conversations in trouble, and of closed ones
}

// Ending is the way in which a conversation has ended, or the fault that it suffers from.
type Ending struct {
	Text   string      `json:"text"`
	Errors []Explained `json:"errors"` // the meaning of the ending
}

// watcher has the methods of statsocket.Watcher.
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

// last returns the ladder of a queue pair's last packets, for a page that has width pixels for it, and has them
// watched for some seconds more.
func (l *ladders) last(ctx context.Context, of qpKey, width int) (*Ladder, error) {
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
	return draw(p, of, width)
}

// get returns the watcher of a queue pair, and starts it if there is none.
func (l *ladders) get(ctx context.Context, of qpKey) (*watched, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if w := l.open[of]; w != nil {
		w.end.Reset(ladderLease)
		return w, nil
	}
	if l.ended || len(l.open) >= maxLadders {
		return nil, fmt.Errorf(
			"the packets of %d queue pairs are watched, which is the most: close another ladder first", maxLadders)
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

// drop forgets the watch of a queue pair.
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

// draw draws packets of a queue pair, in width pixels if that is less than the picture needs by itself; 0: any width.
func draw(p *observe.Packets, of qpKey, width int) (*Ladder, error) {
	out := &Ladder{Seen: p.Seen, Notes: []string{}, Endings: []Ending{}}
	if len(p.Packets) == 0 {
		return out, nil
	}
	s, err := ladder.Take(ladder.Process(p), ladder.LimitsOf(p, ib.QPN(of.peer), of.retries, of.rnrRetries)...)
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
		if text := c.EndingSoFar(); text != "" {
			out.Endings = append(out.Endings, Ending{text, endingMeans(text)})
		}
	}
	if tally.Total() > 0 {
		out.Notes = append(out.Notes, tally.String())
	}
	if width >= l.PictureWidth() {
		width = 0
	}
	var svg strings.Builder
	if err := l.WriteSVG(&svg, nil, max(width, 0)); err != nil {
		return nil, err
	}
	out.SVG, out.Packets = svg.String(), l.Packets
	return out, nil
}

// endingMeans explains how a conversation has ended. Without an answer it is about to fail as queue pairs do then.
func endingMeans(text string) []Explained {
	list := explained(text)
	if len(list) > 0 || !strings.HasPrefix(text, "no answer") {
		return list
	}
	if strings.Contains(text, "RNR retry") {
		return explained("IBV_WC_RNR_RETRY_EXC_ERR")
	}
	return explained("IBV_WC_RETRY_EXC_ERR")
}
