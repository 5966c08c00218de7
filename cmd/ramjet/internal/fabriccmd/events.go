// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
)

// fabricLog writes the subnet manager's events: to the log, or, on a terminal, above the console's line.
type fabricLog struct {
	events *fabriccontrol.Events

	mu   sync.Mutex
	tell func(line string)
}

func newFabricLog(log io.Writer) *fabricLog {
	f := &fabricLog{tell: func(line string) { fmt.Fprintln(log, line) }}
	f.events = fabriccontrol.NewEvents(func(text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tell(time.Now().Format(time.TimeOnly) + " " + text)
	})
	return f
}

func (f *fabricLog) handle(e infiniband.ManagerEvent) { f.events.Handle(e) }

// to has further lines go elsewhere.
func (f *fabricLog) to(tell func(line string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell = tell
}
