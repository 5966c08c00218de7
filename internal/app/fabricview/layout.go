// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// Measures of the picture, in pixels.
const (
	margin     = 24.0
	headHeight = 58.0
	footHeight = 64.0
	farHeight  = 16.0 // of the line of a cable to another host
	leastWidth = 720.0

	boxHeight = 40.0
	boxGap    = 18.0
	charWidth = 0.60 // of the size of the font
	boldWidth = 0.69

	chipHeight = 18.0 // an adapter in a list below its switch
	squareSize = 13.0 // one without a name

	maxInRow  = 24  // adapters that stand in a row of their own; more are listed
	maxNamed  = 260 // adapters that have their names
	compactAt = 40  // switches in a row that are drawn small
)

// style is how adapters are drawn.
type style uint8

const (
	inRow   style = iota // boxes in a row, each with its links
	listed               // with their names, below their switch
	squares              // without names: a square has the color of its link
)

// point is a place in the picture.
type point struct{ x, y float64 }

// box is the rectangle in which a node is drawn: x and y are its middle.
type box struct {
	point
	w, h    float64
	compact bool
}

func (b box) top() float64    { return b.y - b.h/2 }
func (b box) bottom() float64 { return b.y + b.h/2 }
func (b box) left() float64   { return b.x - b.w/2 }
func (b box) right() float64  { return b.x + b.w/2 }

// layout is the picture before it is drawn.
type layout struct {
	*index
	next   [][]int
	rank   []int
	rows   [][]int // of nodes; without row 0 where adapters are listed
	place  []int   // of each node in its row
	style  style
	owner  []int   // the switch below which a node is listed; -1: none
	listed [][]int // the nodes listed below each node
	boxes  []box

	width, height float64
	zoom          float64 // of head and foot: a wide picture is looked at from afar
}

// arrange computes the layout of a view.
func (v *View) arrange() *layout {
	l := &layout{index: v.index()}
	l.next = l.neighbors()
	l.rank = l.ranks(l.next)
	l.boxes = make([]box, len(v.Nodes))
	l.chooseStyle()
	l.rows = l.order(l.rank, l.next)
	l.listGuests()
	l.place = make([]int, len(v.Nodes))
	for _, row := range l.rows {
		for i, n := range row {
			l.place[n] = i
		}
	}
	l.measure()
	l.horizontal()
	l.vertical()
	return l
}

// chooseStyle decides how adapters are drawn, and where they are listed.
func (l *layout) chooseStyle() {
	adapters, switches := 0, 0
	for i := range l.view.Nodes {
		if l.view.Nodes[i].Type == Switch {
			switches++
		} else {
			adapters++
		}
	}
	switch {
	case adapters <= maxInRow || switches == 0:
		l.style = inRow
	case adapters <= maxNamed:
		l.style = listed
	default:
		l.style = squares
	}
	l.owner, l.listed = make([]int, len(l.view.Nodes)), make([][]int, len(l.view.Nodes))
	for i := range l.owner {
		l.owner[i] = -1
	}
}

// listGuests takes row 0 out, if adapters are listed: below the lowest switch that each has a link to.
func (l *layout) listGuests() {
	if l.style == inRow {
		return
	}
	var rest []int // without a switch
	for _, n := range l.rows[0] {
		for _, s := range l.next[n] {
			if l.view.Nodes[s].Type == Switch && (l.owner[n] < 0 || l.rank[s] < l.rank[l.owner[n]]) {
				l.owner[n] = s
			}
		}
		if l.owner[n] < 0 {
			rest = append(rest, n)
			continue
		}
		l.listed[l.owner[n]] = append(l.listed[l.owner[n]], n)
	}
	l.rows[0] = rest
	for s := range l.listed {
		slices.SortStableFunc(l.listed[s], func(a, b int) int { return cmp.Compare(l.portAt(s, a), l.portAt(s, b)) })
	}
}

// portAt returns the least port of a switch that is connected to a node.
func (l *layout) portAt(s, n int) int {
	for _, p := range l.view.Nodes[s].Ports {
		if e, ok := l.peer(End{l.view.Nodes[s].Name, p.Number}); ok && e.Node == l.view.Nodes[n].Name {
			return p.Number
		}
	}
	return math.MaxInt
}

func textWidth(s string, size float64) float64 {
	return float64(utf8.RuneCountInString(s)) * size * charWidth
}

// measure gives the boxes their sizes.
func (l *layout) measure() {
	for _, row := range l.rows {
		for _, n := range row {
			b := &l.boxes[n]
			if b.compact = len(row) > compactAt; b.compact {
				b.w, b.h = 34, 24
				continue
			}
			up := 0
			for _, m := range l.next[n] {
				if l.rank[m] >= l.rank[n] {
					up++
				}
			}
			b.w = min(max(60, textWidth(l.labels[n], 12)*boldWidth/charWidth+16, float64(up)*4+12), 170)
			b.h = boxHeight
		}
	}
	for s, guests := range l.listed {
		for _, n := range guests {
			b := &l.boxes[n]
			b.w, b.h = squareSize, squareSize
			if l.style == listed {
				b.w, b.h = l.chipWidth(s), chipHeight-4
			}
		}
		if l.style == listed && len(guests) > 0 && !l.boxes[s].compact {
			l.boxes[s].w = max(l.boxes[s].w, l.chipWidth(s)+stubLength)
		}
	}
}

// stubLength is how far chips are from the trunk beside them.
const stubLength = 22.0

// chipWidth returns how wide the chips below a switch are.
func (l *layout) chipWidth(s int) float64 {
	w := 40.0
	for _, n := range l.listed[s] {
		w = max(w, textWidth(l.labels[n], 10)+10)
	}
	return min(w, 150)
}

// listColumns returns in how many columns adapters with names are listed below a switch.
func listColumns(guests int) int { return (guests + 23) / 24 }

// grid returns how many columns the squares below a switch have.
func grid(squares int) int { return max(2, int(math.Ceil(math.Sqrt(float64(squares)/4)))) }

// slot returns how wide a box is with all that is listed below it.
func (l *layout) slot(n int) float64 {
	w := l.boxes[n].w
	if guests := l.listed[n]; len(guests) > 0 {
		if l.style == listed {
			w = max(w, float64(listColumns(len(guests)))*(l.chipWidth(n)+stubLength))
		} else {
			w = max(w, float64(grid(len(guests)))*(squareSize+3)+8)
		}
	}
	return w
}

// horizontal places the rows, the lowest first: its nodes stand evenly, and the nodes of other rows above
// the middle of their neighbors below, as far as they do not overlap.
func (l *layout) horizontal() {
	l.width = leastWidth - 2*margin
	for _, row := range l.rows {
		w := -boxGap
		for _, n := range row {
			w += l.slot(n) + l.gap(n)
		}
		l.width = max(l.width, w)
	}
	below := false
	for r, row := range l.rows {
		if len(row) == 0 {
			continue
		}
		desired, total := make([]float64, len(row)), 0.0
		for _, n := range row {
			total += l.slot(n)
		}
		space := (l.width - total) / float64(len(row))
		at := 0.0
		for i, n := range row {
			even := at + space/2 + l.slot(n)/2
			at += space + l.slot(n)
			desired[i] = even
			if middle, ok := l.middleBelow(n, r); ok && below {
				if desired[i] = (even + middle) / 2; r == 1 || len(row) == 1 {
					desired[i] = middle
				}
			}
		}
		l.separate(row, desired)
		below = true
	}
	l.width += 2 * margin
	for i := range l.boxes {
		l.boxes[i].x += margin
	}
}

func (l *layout) gap(n int) float64 {
	if l.boxes[n].compact {
		return 4
	}
	return boxGap
}

// middleBelow returns the middle of the nodes below one that are placed already.
func (l *layout) middleBelow(n, row int) (float64, bool) {
	sum, count := 0.0, 0
	for _, m := range l.next[n] {
		if l.rank[m] < row && l.owner[m] < 0 {
			sum += l.boxes[m].x
			count++
		}
	}
	return sum / max(float64(count), 1), count > 0
}

// separate places a row as near as possible to where its nodes should be: the mean of pushing all that
// overlap to the right, and of pushing them to the left.
func (l *layout) separate(row []int, desired []float64) {
	right, left := make([]float64, len(row)), make([]float64, len(row))
	for i, n := range row {
		if right[i] = max(desired[i], l.slot(n)/2); i > 0 {
			right[i] = max(right[i], right[i-1]+l.minDistance(row[i-1], n))
		}
	}
	for i := len(row) - 1; i >= 0; i-- {
		if left[i] = min(desired[i], l.width-l.slot(row[i])/2); i < len(row)-1 {
			left[i] = min(left[i], left[i+1]-l.minDistance(row[i], row[i+1]))
		}
	}
	for i := range row { // a mean of both may be outside of the picture, where pushing has led out of it
		if right[i] = max((right[i]+left[i])/2, l.slot(row[i])/2); i > 0 {
			right[i] = max(right[i], right[i-1]+l.minDistance(row[i-1], row[i]))
		}
	}
	for i := len(row) - 1; i >= 0; i-- {
		x := min(right[i], l.width-l.slot(row[i])/2)
		if i < len(row)-1 {
			x = min(x, l.boxes[row[i+1]].x-l.minDistance(row[i], row[i+1]))
		}
		l.boxes[row[i]].x = x
	}
}

func (l *layout) minDistance(a, b int) float64 { return (l.slot(a)+l.slot(b))/2 + l.gap(b) }

// vertical places the rows from the top, and the lists of nodes below them.
func (l *layout) vertical() {
	gap := min(max(l.width*0.15, 104), 600)
	l.zoom = min(max(l.width/1300, 1), 3)
	y := headHeight*l.zoom + boxHeight/2 + l.archRoom(len(l.rows)-1)
	for r := len(l.rows) - 1; r >= 0; r-- {
		if len(l.rows[r]) == 0 {
			continue
		}
		if r < len(l.rows)-1 {
			y += l.archRoom(r)
		}
		bottom := y
		for _, n := range l.rows[r] {
			l.boxes[n].y = y
			bottom = max(bottom, l.boxes[n].bottom(), l.list(n))
		}
		l.height = bottom
		if y += gap; bottom > y-gap+boxHeight {
			y = bottom + gap/2
		}
	}
	l.height += (footHeight + farHeight*float64(len(l.remoteCables()))) * l.zoom
}

// archRoom returns the room that links within a row need above it.
func (l *layout) archRoom(row int) float64 {
	room := 0.0
	for i := range l.view.Links {
		k := &l.view.Links[i]
		a, okA := l.nodes[k.A.Node]
		b, okB := l.nodes[k.B.Node]
		if okA && okB && l.arched(a, b) && l.rank[a] == row {
			room = max(room, archHeight(l.boxes[a], l.boxes[b]))
		}
	}
	return room * 0.8
}

// arched reports whether links between two nodes are arches above their row: neighbors have straight
// ones.
func (l *layout) arched(a, b int) bool {
	if l.rank[a] != l.rank[b] || l.owner[a] >= 0 || l.owner[b] >= 0 {
		return false
	}
	d := l.place[a] - l.place[b]
	return d < -1 || d > 1
}

func archHeight(a, b box) float64 { return min(24+math.Abs(a.x-b.x)*0.14, 130) }

// list places the nodes listed below a switch, and returns where the list ends.
func (l *layout) list(s int) float64 {
	b, guests := l.boxes[s], l.listed[s]
	if len(guests) == 0 {
		return 0
	}
	columns, end := grid(len(guests)), 0.0
	left := b.x - float64(columns)*(squareSize+3)/2
	lists := listColumns(len(guests))
	length := (len(guests) + lists - 1) / lists // of each list
	for i, n := range guests {
		g := &l.boxes[n]
		if l.style == listed {
			step := g.w + stubLength
			g.x = b.x + (float64(i/length)-float64(lists)/2)*step + stubLength + g.w/2
			g.y = b.bottom() + 20 + (float64(i%length)+0.5)*chipHeight
		} else {
			g.x = left + (float64(i%columns)+0.5)*(squareSize+3)
			g.y = b.bottom() + 14 + (float64(i/columns)+0.5)*(squareSize+3)
		}
		end = max(end, g.bottom())
	}
	return end + 4
}
