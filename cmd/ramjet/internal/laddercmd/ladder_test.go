// SPDX-License-Identifier: Apache-2.0

package laddercmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
)

// A picture that browsers cannot show is announced before it is written, and small ones are not.
func TestLadderLarge(t *testing.T) {
	t.Parallel()
	c := &ladder.Conversation{Number: 1}
	for _, rows := range []int{ladderMany, 7 * ladderMany} {
		l := &ladder.Ladder{Columns: make([]ladder.Column, 2), Rows: make([]ladder.Row, rows),
			Conversations: []*ladder.Conversation{c}}
		for i := range l.Rows {
			l.Rows[i] = ladder.Row{To: 1, Op: "Write Only", Packets: 1}
		}
		var log strings.Builder
		f := ladderFlags{out: filepath.Join(t.TempDir(), "x.svg")}
		if err := f.writeFile(&log, "capture.pcap", &ladder.Survey{Conversations: l.Conversations}, l); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(f.out)
		if err != nil {
			t.Fatal(err)
		}
		if large := info.Size() > ladderLarge; large != strings.Contains(log.String(),
			" MB, which browsers open slowly") || large != (rows > ladderMany) {
			t.Errorf("%d rows, %d bytes: %q", rows, info.Size(), log.String())
		}
	}
}
