// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// mark stands before the number of a seed that is about to be played.
const mark = "@@ seed "

// share is how many seeds a process plays before the next one is started.
const share = 1000

// playInProcesses has several processes play seeds, each with one processor, and prints which failed.
func playInProcesses(t *testing.T) {
	start := time.Now()
	next, end := *first, *first+uint64(*seeds)
	var mu sync.Mutex
	var failed []uint64
	var workers sync.WaitGroup
	for range *jobs {
		workers.Go(func() {
			for {
				mu.Lock()
				from := next
				to := min(from+share, end)
				next = to
				mu.Unlock()
				if from >= to {
					return
				}
				for from < to {
					var bad []uint64
					var output string
					from, bad, output = playRange(t, from, to)
					mu.Lock()
					failed = append(failed, bad...)
					if output != "" {
						fmt.Println(output)
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	slices.Sort(failed)
	failed = slices.Compact(failed)
	fmt.Printf("%d seeds in %v, %d failed\n", *seeds, time.Since(start).Round(time.Second), len(failed))
	if len(failed) > 0 {
		t.Errorf("seeds that failed: %v", failed)
	}
}

// playRange plays seeds in a process, and returns where the next one is to go on, which is before to where
// it crashed.
func playRange(t *testing.T, from, to uint64) (next uint64, failed []uint64, output string) {
	exe, err := os.Executable()
	if err != nil {
		t.Error(err)
		return to, nil, ""
	}
	cmd := exec.Command(exe, "-test.run=^TestSeeds$", "-test.timeout=0", "-announce", "-first="+fmt.Sprint(from), "-seeds="+fmt.Sprint(to-from),
		"-scenario="+*only, "-on="+*on, "-keep="+*keep)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return to, nil, ""
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return to, nil, ""
	}
	last := from
	var text strings.Builder
	reported := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if _, number, ok := strings.Cut(line, mark); ok {
			if n, err := strconv.ParseUint(number, 10, 64); err == nil {
				last = n
				continue
			}
		}
		if _, rest, ok := strings.Cut(line, ".go:"); ok && strings.Contains(rest, ": seed ") {
			_, rest, _ = strings.Cut(rest, ": seed ")
			number, _, _ := strings.Cut(rest, ":")
			if n, err := strconv.ParseUint(number, 10, 64); err == nil {
				failed, reported = append(failed, n), true
			}
		}
		if text.Len() < 1<<16 {
			text.WriteString(line + "\n")
		}
	}
	err = cmd.Wait()
	switch {
	case err == nil:
		return to, nil, ""
	case reported && last == to-1:
		return to, failed, text.String()
	}
	return last + 1, append(failed, last), fmt.Sprintf("seed %d ends its process: %v\n%s", last, err, text.String())
}
