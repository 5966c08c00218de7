// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// ladderWidth leaves room before the lines of a ladder in 80 columns.
const ladderWidth = 76

// packets does one WRITE, and returns the ladder of its packets. It is empty where packets cannot be seen: between
// devices of the kernel and over shared memory, and if processes do not publish their state (RAMJET_STAT=off).
func (d *Demo) packets(ctx context.Context) (string, error) {
	if d.Kind.Hardware || d.shared == d.side {
		return "", nil
	}
	s := d.side
	w, err := statsocket.Watch(ctx, os.Getpid(), s.dev.Name(), s.rc.Num())
	if err != nil {
		return "", nil
	}
	defer w.Close()
	if _, err := w.Last(ctx, 64); err != nil { // keeping begins
		return "", err
	}
	st := &step{Op: verbs.OpWrite, QP: verbs.RC, Size: smallSize, Count: 1, Stream: true, Seed: randomPattern()}
	if _, _, err := d.step(ctx, st); err != nil {
		return "", err
	}
	kept, err := w.Last(ctx, 64)
	if err != nil {
		return "", err
	}
	return draw(kept)
}

// draw draws packets as a ladder in text.
func draw(kept *observe.Packets) (string, error) {
	survey, err := ladder.Take(func(to func(*capture.Packet)) (capture.Counts,
		error) {
		return capture.FromProcess(kept, to)
	})
	if err != nil {
		return "", err
	}
	if len(survey.Conversations) == 0 {
		return "", errors.New("none were seen")
	}
	l, err := survey.Draw(ladder.Options{Conversations: survey.Conversations[:1]})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = l.WriteText(&b, ladder.Text{Width: ladderWidth})
	return b.String(), err
}
