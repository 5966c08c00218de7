// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// ProcessID parses a process id.
func ProcessID(text string) (int, error) {
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid <= 0 {
		return 0, Usagef("%q is not a process id: `ramjet stat` shows those with devices", text)
	}
	return int(pid), nil
}

// NoProcessError says that a process is not there to be read.
type NoProcessError struct{ PID int }

func (e NoProcessError) Error() string {
	return fmt.Sprintf("process %d has no Ramjet device open, or is not yours to read: `ramjet stat` shows those that are", e.PID)
}

// ReadProcesses reads the processes with some ids; without ids all. If one is not there, it returns
// the others and a NoProcessError.
func ReadProcesses(ctx context.Context, pids []int) (found []statsocket.Process, err error) {
	if len(pids) == 0 {
		return statsocket.Read(ctx, 0)
	}
	for _, pid := range slices.Compact(slices.Sorted(slices.Values(pids))) {
		some, failed := statsocket.Read(ctx, pid)
		if failed != nil {
			return nil, failed
		}
		if len(some) == 0 {
			err = NoProcessError{pid}
		}
		found = append(found, some...)
	}
	return found, err
}

// NoProcess says whose processes would be seen.
func NoProcess() string {
	if os.Geteuid() == 0 {
		return "no process"
	}
	return "no process of yours"
}
