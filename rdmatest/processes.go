// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// childEnv is set in processes that play a part of the seeds.
	childEnv = "RDMATEST_PROCESS"
	// mark stands before the number of a seed that is about to be played.
	mark = "@@ rdmatest seed "
	// share is how many seeds a process plays before the next one is started.
	share = 1000
	// maxFailed is after how many seeds that fail no others are played.
	maxFailed = 10
)

// inProcesses has several processes play seeds, each with one processor, and prints which failed.
func (p *player) inProcesses(first uint64, seeds int) {
	start := time.Now()
	next, end := first, first+uint64(seeds)
	var mu sync.Mutex
	var failed []uint64
	var workers sync.WaitGroup
	for range *jobsFlag {
		workers.Go(func() {
			for {
				mu.Lock()
				from := next
				to := min(from+share, end)
				next = to
				over := len(failed) >= maxFailed
				mu.Unlock()
				for from < to && !over {
					bad, output, err := p.part(from, to)
					if err == nil {
						break
					}
					mu.Lock()
					p.t.Errorf("seed %d: %v\n%s", bad, err, output)
					failed = append(failed, bad)
					over = len(failed) >= maxFailed
					mu.Unlock()
					from = bad + 1
				}
				if from >= end || over {
					return
				}
			}
		})
	}
	workers.Wait()
	slices.Sort(failed)
	took := time.Since(start).Round(time.Second)
	if len(failed) >= maxFailed {
		fmt.Printf("%s: %d of the first seeds failed, so the rest of %d is left out, in %v %v\n", p.t.Name(),
			len(failed), seeds, took, failed)
		return
	}
	fmt.Printf("%s: %d seeds in %v, %d failed %v\n", p.t.Name(), seeds, took, len(failed), failed)
}

// part plays seeds in a process, up to the first one that fails, which it returns.
func (p *player) part(from, to uint64) (bad uint64, output string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return from, "", err
	}
	run := "^" + strings.ReplaceAll(p.t.Name(), "/", "$/^") + "$"
	args := append(slices.Clone(os.Args[1:]), "-test.run="+run, "-test.timeout=0", "-test.v=false", "-test.count=1",
		"-test.coverprofile=", "-test.cpuprofile=", "-test.memprofile=", "-test.blockprofile=", "-test.mutexprofile=",
		"-test.trace=", "-test.testlogfile=", "-test.paniconexit0=false",
		"-rdmatest.first="+fmt.Sprint(from), "-rdmatest.seeds="+fmt.Sprint(to-from))
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return from, "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return from, "", err
	}
	bad = from
	var text strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if number, ok := strings.CutPrefix(lines.Text(), mark); ok {
			if n, err := strconv.ParseUint(number, 10, 64); err == nil {
				bad = n
				continue
			}
		}
		if text.Len() < 1<<16 {
			text.WriteString(lines.Text() + "\n")
		}
	}
	return bad, text.String(), cmd.Wait()
}
