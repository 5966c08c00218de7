// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Files of HPCC's simulator (Li et al., SIGCOMM 2019), which later work uses too. Numbers are separated by blanks.
//
// A topology has the numbers of nodes, switches and links in its first line, and the numbers of the switches in its
// second. Each other line is a link: two nodes, rate, delay, and the share of packets that are lost.
//
//	6 2 5
//	4 5
//	0 4 100Gbps 0.001ms 0
//
// A file of flows has their number in its first line. Each other line is a flow: source, destination, priority group,
// destination port, bytes, and its start in seconds.
//
//	2
//	0 1 3 100 200000 2.0

// HPCCNodes are the nodes of a topology by their numbers in the file; a switch has -1, another its host's number.
type HPCCNodes []int32

// fields reads the words of a file, and knows their lines.
type fields struct {
	scanner *bufio.Scanner
	line    int
	words   []string
	what    string // it is, for errors
}

const maxItems = 1 << 22 // of a file

func newFields(r io.Reader, what string) *fields {
	f := &fields{scanner: bufio.NewScanner(r), what: what}
	f.scanner.Buffer(nil, 1<<20)
	return f
}

// next reads the next line that is not empty.
func (f *fields) next(expected string, words int) error {
	for f.scanner.Scan() {
		f.line++
		if f.words = strings.Fields(f.scanner.Text()); len(f.words) == 0 {
			continue
		}
		if len(f.words) < words {
			return f.errorf("there are %d words: expected %s", len(f.words), expected)
		}
		return nil
	}
	if err := f.scanner.Err(); err != nil {
		return err
	}
	f.line++
	return f.errorf("the file ends: expected %s", expected)
}

func (f *fields) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.what, f.line, fmt.Sprintf(format, args...))
}

// number returns a word as a number from 0 to below limit.
func (f *fields) number(i, limit int, of string) (int, error) {
	n, err := strconv.Atoi(f.words[i])
	if err != nil || n < 0 || n >= limit {
		return 0, f.errorf("%q is no %s: expected a number from 0 to %d", f.words[i], of, limit-1)
	}
	return n, nil
}

func (f *fields) numbers(limit int, of ...string) (n []int, err error) {
	for i, name := range of {
		v, err := f.number(i, limit, name)
		if err != nil {
			return nil, err
		}
		n = append(n, v)
	}
	return n, nil
}

// ReadHPCCTopology reads a topology in HPCC's format; name is the file's, for errors.
func ReadHPCCTopology(r io.Reader, name string) (*Topology, HPCCNodes, error) {
	f := newFields(r, name)
	if err := f.next("the numbers of nodes, switches and links", 3); err != nil {
		return nil, nil, err
	}
	n, err := f.numbers(MaxHosts+maxSwitches, "number of nodes", "number of switches", "number of links")
	if err != nil {
		return nil, nil, err
	}
	if n[1] >= n[0] {
		return nil, nil, f.errorf("of %d nodes %d are switches: expected hosts, too", n[0], n[1])
	}
	if err := f.next("the numbers of all switches", n[1]); err != nil {
		return nil, nil, err
	}
	t := &Topology{Hosts: n[0] - n[1], Switches: n[1]}
	nodes, index := make(HPCCNodes, n[0]), make([]int, n[0])
	for i := range n[1] {
		v, err := f.number(i, n[0], "node")
		if err != nil {
			return nil, nil, err
		}
		if nodes[v] != 0 {
			return nil, nil, f.errorf("switch %d stands there twice", v)
		}
		nodes[v], index[v] = -1, t.Hosts+i
	}
	hosts := 0
	for i := range nodes {
		if nodes[i] == 0 {
			nodes[i], index[i] = int32(hosts), hosts
			hosts++
		}
	}
	for range n[2] {
		l, err := f.link(index)
		if err != nil {
			return nil, nil, err
		}
		t.Links = append(t.Links, l)
	}
	return t, nodes, t.Check()
}

// link reads a link; index has the number of each node of the file.
func (f *fields) link(index []int) (l Link, err error) {
	if err := f.next("a link: two nodes, rate, delay, error rate", 4); err != nil {
		return l, err
	}
	n, err := f.numbers(len(index), "node", "node")
	if err != nil {
		return l, err
	}
	l.A, l.B = index[n[0]], index[n[1]]
	if l.Rate, err = parseRate(f.words[2]); err != nil {
		return l, f.errorf("%v", err)
	}
	d, err := time.ParseDuration(f.words[3])
	if err != nil {
		return l, f.errorf("%q is no delay: expected a time such as 0.001ms", f.words[3])
	}
	l.Delay = FromDuration(d)
	if len(f.words) > 4 {
		if l.Loss, err = strconv.ParseFloat(f.words[4], 64); err != nil {
			return l, f.errorf("%q is no error rate: expected a share such as 0.001", f.words[4])
		}
	}
	return l, nil
}

// parseRate parses a rate as ns-3 writes it, such as 100Gbps.
func parseRate(text string) (float64, error) {
	digits := strings.TrimSuffix(text, "bps")
	scale := 1.0
	for i, prefix := range []string{"k", "M", "G", "T"} {
		if rest, ok := strings.CutSuffix(digits, prefix); ok {
			digits = rest
			for range i + 1 {
				scale *= 1000
			}
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || digits == text {
		return 0, fmt.Errorf("%q is no rate: expected one such as 100Gbps", text)
	}
	return v * scale, nil
}

// ReadHPCCFlows reads flows in HPCC's format, between nodes of a topology; name is the file's, for errors.
func ReadHPCCFlows(r io.Reader, name string, nodes HPCCNodes) (flows []Flow, err error) {
	f := newFields(r, name)
	if err := f.next("the number of flows", 1); err != nil {
		return nil, err
	}
	count, err := f.number(0, maxItems, "number of flows")
	if err != nil {
		return nil, err
	}
	for range count {
		if err := f.next("a flow: source, destination, priority group, port, bytes, start in seconds", 6); err != nil {
			return nil, err
		}
		n, err := f.numbers(len(nodes), "node", "node")
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(f.words[4], 10, 64)
		if err != nil || size < 0 {
			return nil, f.errorf("%q is no size: expected bytes", f.words[4])
		}
		start, err := strconv.ParseFloat(f.words[5], 64)
		if err != nil || !(start >= 0 && start < 1e5) {
			return nil, f.errorf("%q is no start: expected seconds", f.words[5])
		}
		for i := range 2 {
			if nodes[n[i]] < 0 {
				return nil, f.errorf("node %d is a switch: expected a host", n[i])
			}
		}
		if n[0] == n[1] {
			return nil, f.errorf("the flow goes from node %d to itself", n[0])
		}
		flows = append(flows, Flow{Src: nodes[n[0]], Dst: nodes[n[1]], Size: size, Start: Time(start * float64(Second)),
			Op: verbs.OpWrite})
	}
	return flows, nil
}
