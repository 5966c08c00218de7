// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"cmp"
	"slices"
	"strconv"
)

// neighbors are the nodes at the other ends of each node's links.
func (x *index) neighbors() [][]int {
	next := make([][]int, len(x.view.Nodes))
	for _, l := range x.view.Links {
		a, okA := x.nodes[l.A.Node]
		b, okB := x.nodes[l.B.Node]
		if okA && okB && a != b {
			next[a], next[b] = append(next[a], b), append(next[b], a)
		}
	}
	return next
}

// ranks returns the row of each node, from the bottom: adapters are in row 0, leaf switches in row 1,
// and other switches as far above as they are from leaves. A switch with few adapters beside one with
// many is no leaf: often an adapter is plugged into a spine switch, too.
func (x *index) ranks(next [][]int) []int {
	nodes := x.view.Nodes
	rank, adapters, most := make([]int, len(nodes)), make([]int, len(nodes)), 0
	for i := range nodes {
		rank[i] = -1
		for _, n := range next[i] {
			if nodes[n].Type != Switch {
				adapters[i]++
			}
		}
		if nodes[i].Type == Switch {
			most = max(most, adapters[i])
		} else {
			rank[i] = 0
		}
	}
	var queue []int
	for i := range nodes {
		few := func(n int) bool { return nodes[n].Type != Switch || adapters[n]*2 < most }
		if nodes[i].Type == Switch && adapters[i] > 0 &&
			(!few(i) || !slices.ContainsFunc(next[i], func(n int) bool { return !few(n) })) {
			rank[i] = 1
			queue = append(queue, i)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, n := range next[queue[0]] {
			if rank[n] < 0 {
				rank[n] = rank[queue[0]] + 1
				queue = append(queue, n)
			}
		}
	}
	for i := range rank {
		if rank[i] < 0 {
			rank[i] = 1 // a switch without a way to an adapter
		}
	}
	return rank
}

// order returns the nodes of each row from left to right, so that few links cross: the barycentre
// heuristic (Sugiyama, Tagawa and Toda, 1981), from the order of names on.
func (x *index) order(rank []int, next [][]int) [][]int {
	rows := make([][]int, slices.Max(append(slices.Clone(rank), 0))+1)
	for i, r := range rank {
		rows[r] = append(rows[r], i)
	}
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b int) int { return naturalCompare(x.labels[a], x.labels[b]) })
	}
	best, fewest := cloneRows(rows), crossings(rows, rank, next)
	for sweep := range 12 {
		if fewest == 0 {
			break
		}
		for i := range rows {
			from, to := i-1, i // upward
			if sweep%2 == 1 {
				from, to = len(rows)-i, len(rows)-i-1
			}
			if from >= 0 && from < len(rows) {
				barycentre(rows, rank, next, from, to)
			}
		}
		if c := crossings(rows, rank, next); c < fewest {
			best, fewest = cloneRows(rows), c
		}
	}
	return best
}

func cloneRows(rows [][]int) [][]int {
	c := make([][]int, len(rows))
	for i := range rows {
		c[i] = slices.Clone(rows[i])
	}
	return c
}

// barycentre sorts a row by the middle of each node's neighbors in another row. A node without any
// stays where it is, relative to the row's width.
func barycentre(rows [][]int, rank []int, next [][]int, from, to int) {
	at := make(map[int]float64, len(rows[from]))
	for i, n := range rows[from] {
		at[n] = (float64(i) + 0.5) / float64(len(rows[from]))
	}
	middle := make(map[int]float64, len(rows[to]))
	for i, n := range rows[to] {
		sum, count := 0.0, 0
		for _, m := range next[n] {
			if rank[m] == from {
				sum += at[m]
				count++
			}
		}
		if middle[n] = (float64(i) + 0.5) / float64(len(rows[to])); count > 0 {
			middle[n] = sum / float64(count)
		}
	}
	slices.SortStableFunc(rows[to], func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
}

// crossings counts the crossings of links between rows that are next to each other.
func crossings(rows [][]int, rank []int, next [][]int) int {
	position := make([]int, len(rank))
	for _, row := range rows {
		for i, n := range row {
			position[n] = i
		}
	}
	total := 0
	for r := range len(rows) - 1 {
		tree := make([]int, len(rows[r+1])+1) // counts of upper ends, as a binary indexed tree
		ends := 0
		for _, n := range rows[r] {
			var up []int
			for _, m := range next[n] {
				if rank[m] == r+1 {
					up = append(up, position[m])
				}
			}
			for _, p := range up {
				left := 0
				for i := p + 1; i > 0; i -= i & -i {
					left += tree[i]
				}
				total += ends - left
			}
			for _, p := range up {
				for i := p + 1; i < len(tree); i += i & -i {
					tree[i]++
				}
				ends++
			}
		}
	}
	return total
}

// naturalCompare compares names so that host-2 is before host-10.
func naturalCompare(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			va, errA := strconv.ParseUint(a[:na], 10, 64)
			vb, errB := strconv.ParseUint(b[:nb], 10, 64)
			if errA == nil && errB == nil {
				if va != vb {
					return cmp.Compare(va, vb)
				}
				a, b = a[na:], b[nb:]
				continue
			}
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
