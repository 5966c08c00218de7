// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// loads are the colors of links by their load: each up to the share. They differ in lightness too.
var loads = []struct {
	below float64
	name  string
}{{0.01, "idle"}, {0.25, "1–25 %"}, {0.5, "25–50 %"}, {0.75, "50–75 %"}, {0.9, "75–90 %"},
	{math.Inf(1), "90 % and more"}}

// mostZoom is how much larger than drawn a window shows a picture.
const mostZoom = 1.6

// manyLinks are so many that they are drawn thinner.
const manyLinks = 400

func loadClass(share float64) int {
	return slices.IndexFunc(loads, func(l struct {
		below float64
		name  string
	}) bool {
		return share < l.below
	})
}

// styles are for a light background, and for a dark one where the viewer prefers that.
const styles = `
text{font-family:"DejaVu Sans","Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2733}
svg{display:block;margin:auto;background:#ffffff}
.bg{fill:#ffffff}.muted{fill:#525c6b}.t{text-anchor:middle}
.switch{fill:#e6edf8;stroke:#42628f}.ca{fill:#e9f5ec;stroke:#4b8561}.router{fill:#f7efdf;stroke:#94753a}
.box{stroke-width:1.3}.off{fill:#f3f3f3;stroke:#b3372f;stroke-dasharray:5 3}
.link{fill:none;stroke-linecap:round}.stub{stroke-linecap:butt}
.l0{stroke:#98a2b0}.l1{stroke:#4a93d8}.l2{stroke:#1f9a76}.l3{stroke:#d4a200}.l4{stroke:#e56a1c}.l5{stroke:#c4161c}
.s0{fill:#c3cad4}.s1{fill:#4a93d8}.s2{fill:#1f9a76}.s3{fill:#d4a200}.s4{fill:#e56a1c}.s5{fill:#c4161c}
.wait{stroke:#8b6fc9;stroke-dasharray:2 5}.down{stroke:#b3372f;stroke-dasharray:7 5}
.square{stroke:#ffffff;stroke-width:1}.sdown{fill:none;stroke:#b3372f;stroke-dasharray:3 2}.swait{fill:none;stroke:#8b6fc9;stroke-dasharray:2 2}
.route{fill:none;stroke:#7a3ff2;stroke-opacity:.33;stroke-linecap:round;stroke-linejoin:round}
.route.stub{stroke-linecap:butt}.on{stroke:#7a3ff2;stroke-width:2.6}.badge{fill:#7a3ff2}.num{fill:#ffffff;font-weight:bold}
.port{fill:#1f2733;stroke:#ffffff;stroke-width:4;stroke-linejoin:round;paint-order:stroke;text-anchor:middle;font-weight:bold}
.dim{opacity:.3}.far{opacity:.13}.held{fill:#c4161c}.bad{stroke:#c4161c;stroke-width:2;fill:none}
@media (prefers-color-scheme:dark){
svg{background:#15191f}
text{fill:#e4e8ee}.bg{fill:#15191f}.muted{fill:#aab3bf}
.switch{fill:#22304a;stroke:#7f9fd0}.ca{fill:#1d3426;stroke:#74b48c}.router{fill:#3a2f1a;stroke:#c9a65e}
.off{fill:#2a2222;stroke:#e0685f}.l0{stroke:#6b7684}.s0{fill:#4a5461}
.port{fill:#e4e8ee;stroke:#15191f}.num{fill:#ffffff}.square{stroke:#15191f}.down,.sdown{stroke:#e0685f}}
`

// drawing writes a layout as SVG.
type drawing struct {
	*layout
	b       []byte
	routed  map[int]int // links on the route, and their hops from 1
	onRoute map[string]bool
	ends    map[End]point // where links end
	numbers map[End]bool  // ends that have room for the port's number
}

// WriteSVG draws the fabric: adapters at the bottom, switches above by their distance from them. A
// link's color and width is its load, a route lies over its links. Fabrics of any size are drawn; up
// to about 250 adapters have their names. Every part has a title, which browsers show when it is
// pointed at.
func (v *View) WriteSVG(w io.Writer) error {
	d := &drawing{layout: v.arrange(), routed: make(map[int]int), onRoute: make(map[string]bool)}
	if r := v.Route; r != nil {
		d.onRoute[r.From.Node] = true
		for i, h := range r.Hops {
			if l, ok := d.links[h.From]; ok {
				d.routed[l] = i + 1
			}
			d.onRoute[h.From.Node], d.onRoute[h.To.Node] = true, true
		}
	}
	d.attach()
	// Without a width and a height it is as large as the window, but small fabrics are not blown up.
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" style="max-width:%.0fpx;max-height:%.0fpx">`+"\n",
		d.width, d.height, mostZoom*d.width, mostZoom*d.height)
	d.printf("<style>%s</style>\n<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n", styles)
	d.head()
	for i := range v.Links {
		if d.routed[i] > 0 {
			d.printf(`<path class="route" stroke-width="%.0f" d="%s"/>`+"\n", 11*min(d.zoom, 2), d.path(i))
		}
	}
	for _, i := range d.byLoad() {
		d.link(i)
	}
	for i := range v.Nodes {
		d.node(i)
	}
	for i := range v.Links {
		d.marks(i)
	}
	d.legend()
	d.printf("</svg>\n")
	_, err := w.Write(d.b)
	return err
}

func (d *drawing) printf(format string, a ...any) { d.b = fmt.Appendf(d.b, format, a...) }

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// byLoad returns the links in the order in which they are drawn: important ones lie above.
func (d *drawing) byLoad() []int {
	weight, all := make([]float64, len(d.view.Links)), make([]int, len(d.view.Links))
	for i := range d.view.Links {
		k := &d.view.Links[i]
		all[i], weight[i] = i, d.load(k)
		switch d.linkState(k) {
		case Down:
			weight[i] = 3
		case Initialize, Armed:
			weight[i] = 2
		}
		if d.routed[i] > 0 {
			weight[i] = 4
		}
	}
	slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(weight[i], weight[j]) })
	return all
}

// head writes the summary and the route's caption.
func (d *drawing) head() {
	d.printf(`<g transform="scale(%.2f)"><text x="%.0f" y="26" font-size="13" font-weight="bold">%s</text>`, d.zoom,
		margin, escaper.Replace(d.view.Summary()))
	defer d.printf("</g>\n")
	r := d.view.Route
	if r == nil {
		return
	}
	caption := fmt.Sprintf("route: %s (LID %s)", d.label(r.From), lidText(r.FromLID))
	for _, h := range r.Hops {
		caption += " → " + d.label(h.To)
	}
	if r.Broken != "" {
		caption += " ✕ " + r.Broken
	} else {
		caption += fmt.Sprintf(" (LID %s)", lidText(r.ToLID))
	}
	most := int((d.width/d.zoom - 2*margin) / (12 * charWidth))
	d.printf(`<text x="%.0f" y="45" font-size="12" class="muted">%s</text>`, margin,
		escaper.Replace(strings.TrimRight(fit(caption, max(most, 20)), " ")))
}

// attach spreads the ends of links along the edges of boxes, in the order of where they lead.
func (d *drawing) attach() {
	d.ends, d.numbers = make(map[End]point), make(map[End]bool)
	type side struct {
		node int
		edge byte // t, b, l, r
	}
	sides := make(map[side][]End)
	for i := range d.view.Links {
		k := &d.view.Links[i]
		a, okA := d.nodes[k.A.Node]
		b, okB := d.nodes[k.B.Node]
		if !okA || !okB {
			continue
		}
		for _, e := range []struct {
			end      End
			own, far int
		}{{k.A, a, b}, {k.B, b, a}} {
			s := side{e.own, d.edge(e.own, e.far)}
			sides[s] = append(sides[s], e.end)
		}
	}
	for s, ends := range sides {
		slices.SortStableFunc(ends, func(e, f End) int { return d.compareEnds(s.edge, e, f) })
		b := d.boxes[s.node]
		for i, e := range ends {
			at := (float64(i) + 0.5) / float64(len(ends))
			spacing := b.w * 0.86 / float64(len(ends))
			x, y := b.left()+b.w*(0.07+0.86*at), b.top()+b.h*(0.15+0.7*at)
			switch s.edge {
			case 't':
				d.ends[e] = point{x, b.top()}
			case 'b':
				d.ends[e] = point{x, b.bottom()}
			case 'l':
				d.ends[e], spacing = point{b.left(), y}, b.h*0.7/float64(len(ends))
			default:
				d.ends[e], spacing = point{b.right(), y}, b.h*0.7/float64(len(ends))
			}
			far, _ := d.peer(e)
			d.numbers[e] = d.owner[d.nodes[far.Node]] != s.node && spacing >= 12 && d.owner[s.node] < 0 && !b.compact &&
				len(d.view.Links) <= 60
		}
	}
}

// edge returns the edge of a node's box at which its links to another one end.
func (d *drawing) edge(own, far int) byte {
	switch {
	case d.owner[own] >= 0: // listed: links come from the left, or from elsewhere
		if d.owner[own] == far {
			return 'l'
		}
		return 'r'
	case d.owner[far] == own:
		return 'b'
	case d.rank[far] > d.rank[own] || d.arched(own, far):
		return 't'
	case d.rank[far] < d.rank[own]:
		return 'b'
	case d.boxes[far].x < d.boxes[own].x:
		return 'l'
	}
	return 'r'
}

// compareEnds orders the ends at an edge so that links do not cross there.
func (d *drawing) compareEnds(edge byte, e, f End) int {
	pe, _ := d.peer(e)
	pf, _ := d.peer(f)
	a, b := d.boxes[d.nodes[pe.Node]], d.boxes[d.nodes[pf.Node]]
	if a.x != b.x && (edge == 't' || edge == 'b') {
		return cmp.Compare(a.x, b.x)
	}
	if pe.Node != pf.Node {
		return strings.Compare(pe.Node, pf.Node)
	}
	// Several links to one node have the same order at both ends: that of the lesser node's ports.
	if e.Node < pe.Node {
		return e.Port - f.Port
	}
	return pe.Port - pf.Port
}

// path returns the way that a link takes.
func (d *drawing) path(i int) string {
	k := &d.view.Links[i]
	na, nb := d.nodes[k.A.Node], d.nodes[k.B.Node]
	a, b := d.ends[k.A], d.ends[k.B]
	if d.owner[na] == nb {
		na, nb, a, b = nb, na, b, a
	}
	switch {
	case d.owner[nb] == na && d.style == listed:
		return d.trunk(na, nb) + fmt.Sprintf("H%.1f", b.x)
	case d.owner[nb] == na:
		return fmt.Sprintf("M%.1f %.1fV%.1f", d.boxes[na].x, d.boxes[na].bottom(), d.boxes[na].bottom()+10)
	case d.owner[na] >= 0 || d.owner[nb] >= 0:
		return fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", a.x, a.y, (a.x+b.x)/2, max(a.y, b.y), b.x, b.y)
	case d.arched(na, nb):
		up := archHeight(d.boxes[na], d.boxes[nb]) * 1.05
		return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", a.x, a.y, a.x+(b.x-a.x)*0.12, a.y-up,
			b.x-(b.x-a.x)*0.12, b.y-up, b.x, b.y)
	}
	return fmt.Sprintf("M%.1f %.1fL%.1f %.1f", a.x, a.y, b.x, b.y)
}

// trunkX is the place of the line from which a list of adapters hangs.
func (d *drawing) trunkX(guest int) float64 { return d.boxes[guest].left() - stubLength + 7 }

// trunk returns the way from a switch down to the height of an adapter in one of its lists.
func (d *drawing) trunk(host, guest int) string {
	x, b := d.trunkX(guest), d.boxes[host]
	if x > b.left() && x < b.right() {
		return fmt.Sprintf("M%.1f %.1fV%.1f", x, b.bottom(), d.boxes[guest].y)
	}
	return fmt.Sprintf("M%.1f %.1fV%.1fH%.1fV%.1f", b.x, b.bottom(), b.bottom()+10, x, d.boxes[guest].y)
}

// looks returns the class and the width of a link's line.
func (d *drawing) looks(k *Link) (class string, width float64) {
	scale := 1.0
	if len(d.view.Links) > manyLinks {
		scale = 0.6
	}
	switch d.linkState(k) {
	case Down:
		return "down", 1.4 * scale
	case Initialize, Armed:
		return "wait", 2.2 * scale
	case Planned:
		return "l0", 1.6 * scale
	}
	load := d.load(k)
	return fmt.Sprintf("l%d", loadClass(load)), (1.6 + 3.4*min(load, 1)) * scale
}

// link draws a link, without its marks above boxes.
func (d *drawing) link(i int) {
	k := &d.view.Links[i]
	na, okA := d.nodes[k.A.Node]
	nb, okB := d.nodes[k.B.Node]
	if !okA || !okB || d.style == squares && (d.owner[na] == nb || d.owner[nb] == na) && d.routed[i] == 0 {
		return
	}
	class, width := d.looks(k)
	if len(d.routed) > 0 && d.routed[i] == 0 {
		if class += " dim"; len(d.view.Links) > manyLinks {
			class += " far"
		}
	}
	path := d.path(i)
	if guest, s := d.listedEnd(na, nb); guest >= 0 && d.style == listed {
		// The trunk is everybody's and has no color: only the stub is this link's.
		if d.routed[i] == 0 {
			dim := ""
			if len(d.routed) > 0 {
				dim = " dim"
			}
			d.printf(`<path class="link l0%s" stroke-width="1.2" d="%s"/>`, dim, d.trunk(s, guest))
			class += " stub"
			path = fmt.Sprintf("M%.1f %.1fH%.1f", d.trunkX(guest), d.boxes[guest].y, d.boxes[guest].left())
		}
	}
	d.printf(`<path class="link %s" stroke-width="%.1f" d="%s"><title>%s</title></path>`+"\n", class, width, path,
		escaper.Replace(d.tooltip(k)))
}

// listedEnd returns which of two nodes is listed below the other; -1: neither.
func (d *drawing) listedEnd(a, b int) (guest, host int) {
	switch {
	case d.owner[a] == b && b >= 0:
		return a, b
	case d.owner[b] == a:
		return b, a
	}
	return -1, -1
}

// tooltip describes a link in words.
func (d *drawing) tooltip(k *Link) string {
	a, b := d.port(k.A), d.port(k.B)
	s := fmt.Sprintf("%s[%d] – %s[%d]", d.label(k.A), k.A.Port, d.label(k.B), k.B.Port)
	if a.Rate != "" {
		s += " " + a.Rate
	}
	if state := d.linkState(k); state == Active {
		s += " Active"
		if d.view.Measured > 0 {
			s += fmt.Sprintf(", → %s (%s of its rate), ← %s (%s)", units.Rate(a.Traffic.Sent), units.Percent(a.Load),
				units.Rate(b.Traffic.Sent), units.Percent(b.Load))
		}
		if w := max(a.Traffic.Waiting, b.Traffic.Waiting); w >= 0.005 {
			s += fmt.Sprintf(", waits for credits %s of the time", units.Percent(w))
		}
	}
	if e := a.Counters.SymbolErrors + a.Counters.RcvErrors + b.Counters.SymbolErrors + b.Counters.RcvErrors; e > 0 {
		s += fmt.Sprintf(", %s", units.Plural(int(e), "error"))
	}
	if state := d.linkState(k); state == Active {
		// said above
	} else if state != Planned {
		s += " " + string(state)
	}
	if k.ErrorRate > 0 {
		s += fmt.Sprintf(", corrupts %s of the packets", units.PercentSet(k.ErrorRate))
	}
	return s
}

// node draws a node's box.
func (d *drawing) node(i int) {
	n, b := &d.view.Nodes[i], d.boxes[i]
	class, on := "box "+string(n.Type), d.onRoute[n.Name]
	if n.Off {
		class += " off"
	}
	if on {
		class += " on"
	} else if len(d.onRoute) > 0 {
		class += " dim"
	}
	title := escaper.Replace(d.describe(n))
	if d.owner[i] >= 0 && d.style == squares {
		d.printf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s</title></rect>`+"\n",
			d.square(n, on), b.left(), b.top(), b.w, b.h, title)
		return
	}
	radius := 8.0
	if n.Type != Switch {
		radius = 4
	}
	if b.compact {
		radius = 3
	}
	if strings.HasSuffix(class, " dim") { // links behind it do not shine through
		d.printf(`<rect class="bg" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f"/>`, b.left(), b.top(), b.w,
			b.h, radius)
	}
	d.printf(`<g><title>%s</title><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f"/>`, title,
		class, b.left(), b.top(), b.w, b.h, radius)
	d.boxText(n, b)
	d.printf("</g>\n")
}

// boxText writes into a box: the name, and below it the LID where there is room.
func (d *drawing) boxText(n *Node, b box) {
	size, second := 12.0, d.secondLine(n)
	width := charWidth
	if b.h < boxHeight {
		size = 10
	} else if second != "" {
		width = boldWidth
	}
	name := d.label(End{Node: n.Name})
	if textWidth(name, size) > b.w-6 && b.w < 60 { // the number at the end says enough
		short := name[strings.LastIndexAny(name, "-_ ./:")+1:]
		if name != n.Label() {
			short = n.tail()[2:]
		}
		if size = 9; short != "" {
			name = short
		}
	}
	if most := int((b.w - 6) / (size * width)); utf8.RuneCountInString(name) > most {
		name = fit(name, max(most, 2))
	}
	if b.h < boxHeight || second == "" {
		d.printf(`<text class="t" x="%.1f" y="%.1f" font-size="%.0f">%s</text>`, b.x, b.y+size*0.35, size,
			escaper.Replace(name))
		return
	}
	d.printf(`<text class="t" x="%.1f" y="%.1f" font-size="%.0f" font-weight="bold">%s</text>`, b.x, b.y-2, size,
		escaper.Replace(name))
	d.printf(`<text class="t muted" x="%.1f" y="%.1f" font-size="10">%s</text>`, b.x, b.y+13, escaper.Replace(second))
}

func (d *drawing) secondLine(n *Node) string {
	if n.Off {
		return "down"
	}
	if n.Type == Switch {
		if n.LID == 0 {
			return ""
		}
		return fmt.Sprintf("LID %d", n.LID)
	}
	var lids []int
	for _, p := range n.Ports {
		if p.LID != 0 {
			lids = append(lids, int(p.LID))
		}
	}
	if len(lids) == 0 {
		return ""
	}
	return "LID " + ranges(lids)
}

// describe says all of a node that its box does not.
func (d *drawing) describe(n *Node) string {
	s := d.label(End{Node: n.Name})
	if n.Description != "" && n.Description != n.Label() {
		s += " (" + n.Description + ")"
	}
	s += fmt.Sprintf("\n%v", n.GUID)
	if second := d.secondLine(n); second != "" {
		s += "\n" + second
	}
	used := 0
	for _, p := range n.Ports {
		if _, ok := d.peer(End{n.Name, p.Number}); ok || p.Far != "" {
			used++
		}
	}
	s += fmt.Sprintf("\n%s, %d with a cable", units.Plural(len(n.Ports), "port"), used)
	for i := range n.Ports {
		if p := &n.Ports[i]; p.Far != "" {
			s += "\n" + d.describeRemote(n, p)
		}
	}
	if i := d.nodes[n.Name]; d.owner[i] >= 0 {
		for _, p := range n.Ports {
			if l, ok := d.links[End{n.Name, p.Number}]; ok {
				s += "\n" + d.tooltip(&d.view.Links[l])
			}
		}
	}
	return s
}

// square returns the classes of an adapter without a name: its busiest link's.
func (d *drawing) square(n *Node, on bool) string {
	class, load := "square sdown", -1.0
	for _, p := range n.Ports {
		l, ok := d.links[End{n.Name, p.Number}]
		if !ok {
			continue
		}
		switch k := &d.view.Links[l]; d.linkState(k) {
		case Initialize, Armed:
			if load < 0 {
				class = "square swait"
			}
		case Active, Planned:
			if share := d.load(k); share > load {
				load, class = share, fmt.Sprintf("square s%d", loadClass(share))
			}
		}
	}
	if on {
		class += " on"
	} else if len(d.onRoute) > 0 {
		class += " dim"
	}
	return class
}

// marks draws the marks above boxes and links: port numbers, hops of the route, faults.
func (d *drawing) marks(i int) {
	k := &d.view.Links[i]
	na, okA := d.nodes[k.A.Node]
	nb, okB := d.nodes[k.B.Node]
	if !okA || !okB {
		return
	}
	a, b := d.ends[k.A], d.ends[k.B]
	for _, e := range []struct {
		end       End
		at, other point
		node      int
	}{{k.A, a, b, na}, {k.B, b, a, nb}} {
		if d.numbers[e.end] && (len(d.routed) == 0 || d.routed[i] > 0) {
			p := d.along(e.at, e.other, d.edge(e.node, na+nb-e.node), 13)
			d.printf(`<text class="port" font-size="9" x="%.1f" y="%.1f">%d</text>`, p.x, p.y+3, e.end.Port)
		}
		if port := d.port(e.end); len(port.Held) > 0 && d.owner[e.node] < 0 {
			d.printf(`<rect class="held" x="%.1f" y="%.1f" width="8" height="8"><title>%s[%d] holds back the credits of VL %s</title></rect>`,
				e.at.x-4, e.at.y-4, escaper.Replace(d.label(e.end)), e.end.Port, ranges(port.Held))
		}
	}
	middle := point{(a.x + b.x) / 2, (a.y + b.y) / 2}
	if d.arched(na, nb) {
		middle.y = a.y - 0.79*archHeight(d.boxes[na], d.boxes[nb])
	}
	guest, host := d.listedEnd(na, nb)
	if guest >= 0 {
		middle = point{d.boxes[guest].left() - stubLength/2 + 3, d.boxes[guest].y}
		if d.style == squares {
			middle = point{d.boxes[host].x, d.boxes[host].bottom() + 7}
		}
	}
	if k.ErrorRate > 0 {
		d.printf(`<path class="bad" d="M%.1f %.1fl8 8m0 -8l-8 8"/>`, middle.x-4, middle.y-4)
	}
	if hop := d.routed[i]; hop > 0 {
		size := min(d.zoom, 2)
		d.printf(`<circle class="badge" cx="%.1f" cy="%.1f" r="%.1f"/><text class="t num" font-size="%.1f" x="%.1f" y="%.1f">%d</text>`+"\n",
			middle.x, middle.y, 8*size, 10*size, middle.x, middle.y+3.5*size, hop)
	}
}

// along returns the point on a link at some distance from its end at a box.
func (d *drawing) along(at, other point, edge byte, distance float64) point {
	dx, dy := other.x-at.x, other.y-at.y
	switch edge {
	case 't': // at the same height for all, so that the numbers make a row
		if dy >= 0 {
			return point{at.x, at.y - distance}
		}
		return point{at.x - dx/dy*min(distance, -dy), at.y - distance}
	case 'b':
		if dy <= 0 {
			return point{at.x, at.y + distance}
		}
		return point{at.x + dx/dy*min(distance, dy), at.y + distance}
	}
	length := math.Hypot(dx, dy)
	if length == 0 {
		return at
	}
	return point{at.x + dx/length*min(distance, length/2), at.y + dy/length*min(distance, length/2)}
}

// legend explains the picture, at its foot.
func (d *drawing) legend() {
	d.printf(`<g transform="scale(%.2f)">`, d.zoom)
	defer d.printf("</g>\n")
	far := d.remoteCables()
	height := d.height/d.zoom - farHeight*float64(len(far))
	for i, s := range far {
		d.printf(`<text class="muted" font-size="11" x="%.1f" y="%.1f">%s</text>`, margin,
			height+4+farHeight*float64(i), escaper.Replace(s))
	}
	x, y := margin, height-30
	entry := func(class string, width float64, text string) {
		d.printf(`<path class="link %s" stroke-width="%.1f" d="M%.1f %.1fh26"/><text class="muted" font-size="11" x="%.1f" y="%.1f">%s</text>`, class, width, x, y-4, x+32, y, text)
		x += 32 + textWidth(text, 11) + 18
	}
	states, held, bad := make(map[State]bool), false, false
	for i := range d.view.Links {
		k := &d.view.Links[i]
		states[d.linkState(k)] = true
		held = held || len(d.port(k.A).Held)+len(d.port(k.B).Held) > 0
		bad = bad || k.ErrorRate > 0
	}
	if states[Active] {
		title := "of its rate"
		if d.view.Measured == 0 {
			title = "load"
		}
		d.printf(`<text class="muted" font-size="11" x="%.1f" y="%.1f">%s</text>`, x, y, title)
		x += textWidth(title, 11) + 12
		for i, l := range loads {
			entry(fmt.Sprintf("l%d", i), 1.6+0.68*float64(i), l.name)
		}
		x, y = margin, height-12
	}
	if states[Down] {
		entry("down", 1.4, "down")
	}
	if states[Initialize] || states[Armed] {
		entry("wait", 2.2, "not active yet")
	}
	if d.view.Route != nil {
		entry("route stub", 11, "route")
	}
	if held {
		d.printf(`<rect class="held" x="%.1f" y="%.1f" width="8" height="8"/><text class="muted" font-size="11" x="%.1f" y="%.1f">credits held back</text>`, x+9, y-8, x+32, y)
		x += 32 + textWidth("credits held back", 11) + 18
	}
	if bad {
		d.printf(`<path class="bad" d="M%.1f %.1fl8 8m0 -8l-8 8"/><text class="muted" font-size="11" x="%.1f" y="%.1f">corrupts packets</text>`, x+9, y-8, x+32, y)
	}
}
