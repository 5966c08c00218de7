// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// running returns the view of a generated fabric whose links are up, with LIDs from 1 in the order of
// the nodes.
func running(t *testing.T, text string) *View {
	t.Helper()
	top, err := topology.Generate(text)
	if err != nil {
		t.Fatal(err)
	}
	nodes := top.Build(node.DefaultSpec)
	for _, l := range top.Links {
		for _, e := range []topology.End{l.A, l.B} {
			nodes[e.Node].Ports[e.Port].Up(node.Width4x, node.EDR)
			nodes[e.Node].Ports[e.Port].Link.Logical = node.Active
		}
	}
	v := FromTopology(top)
	for i, n := range nodes {
		for p := range n.Ports {
			n.Ports[p].Address.LID = uint16(i + 1)
		}
		v.Nodes[i] = FromNode(top.Nodes[i].Name, n)
	}
	return v
}

// tables returns forwarding tables by least hops to the last node's LID, by the lowest port.
func tables(v *View) func(name string) *node.Tables {
	x := v.index()
	next := x.neighbors()
	byName := make(map[string]*node.Tables)
	for i := range v.Nodes {
		if v.Nodes[i].Type == Switch {
			t := &node.Tables{Linear: make([]uint8, len(v.Nodes)+1), Top: uint16(len(v.Nodes))}
			for l := range t.Linear {
				t.Linear[l] = node.NoRoute
			}
			byName[v.Nodes[i].Name] = t
		}
	}
	to := len(v.Nodes) - 1
	d := make([]int, len(v.Nodes))
	for i := range d {
		d[i] = 1 << 20
	}
	d[to] = 0
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		for _, n := range next[queue[0]] {
			if d[n] == 1<<20 {
				d[n] = d[queue[0]] + 1
				queue = append(queue, n)
			}
		}
	}
	for i := range v.Nodes {
		for _, p := range v.Nodes[i].Ports {
			e, ok := x.peer(End{v.Nodes[i].Name, p.Number})
			if t := byName[v.Nodes[i].Name]; t != nil && ok && d[x.nodes[e.Node]] < d[i] &&
				t.Linear[to+1] == node.NoRoute {
				t.Linear[to+1] = uint8(p.Number)
			}
		}
	}
	return func(name string) *node.Tables { return byName[name] }
}

func TestWriteText(t *testing.T) {
	v := running(t, "pair")
	v.Measured = time.Second
	v.Nodes[0].Ports[2].Traffic = Traffic{Sent: 6e8, Waiting: 0.25}
	v.Nodes[1].Ports[1].Traffic.Sent = 1.2e9
	v.Nodes[1].Ports[2].Held = []int{0, 1, 2, 5}
	v.Links[5].ErrorRate = 0.01
	v.Nodes[1].Ports[3].State, v.Nodes[1].Ports[3].Rate = Down, ""
	v.Route = v.Trace(End{"host-1", 1}, End{"host-4", 1}, tables(v))
	var b bytes.Buffer
	if err := v.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `2 switches, 4 adapters, 6 links (5 Active, 1 Down)
Sent, over 1.00 s; a full bar is 1.20 GB/s, what the busiest port sends

switch-1                           switch   LID 1      0x02524a5420000100
    [1] Active     4xEDR              0B/s host-1[1] LID 3
    [2] Active     4xEDR              0B/s host-2[1] LID 4
    [3] Active     4xEDR   ███     600MB/s switch-2[3] LID 2  waits 25%
    [4] Active     4xEDR              0B/s switch-2[4] LID 2

switch-2                           switch   LID 2      0x02524a5420000200
    [1] Active     4xEDR              0B/s host-3[1] LID 5
    [2] Active     4xEDR   ██████ 1.20GB/s host-4[1] LID 6  corrupts 1%
    [3] Active     4xEDR              0B/s switch-1[3] LID 1  holds VL 0-2, 5
    [4] Down       -                       switch-1[4] LID 1

adapter                  port LID   state      port GUID          switch
host-1                      1 3     Active     0x02524a5410000101 switch-1[1]
host-2                      1 4     Active     0x02524a5410000201 switch-1[2]
host-3                      1 5     Active     0x02524a5410000301 switch-2[1]
host-4                      1 6     Active     0x02524a5410000401 switch-2[2]

route from host-1 (LID 3) to host-4 (LID 6): 3 hops
   1  host-1[1]   -> switch-1[1]              4xEDR              0B/s
   2  switch-1[3] -> switch-2[3]              4xEDR   ███     600MB/s
   3  switch-2[2] -> host-4[1]                4xEDR   ██████ 1.20GB/s
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

// The color of a link is the load of its own rate, however little the others carry.
func TestLoadColors(t *testing.T) {
	for _, c := range []struct {
		sent, load float64
		class      string
	}{{1e6, 1e6 * 8 / 1e11, "l0"}, {5e9, 0.4, "l2"}, {12e9, 0.96, "l5"}, {30e9, 2.4, "l5"}} {
		v := running(t, "pair")
		v.Measured = time.Second
		k := &v.Links[0]
		x := v.index()
		x.port(k.A).Traffic.Sent, x.port(k.A).Load = c.sent, c.load
		var b bytes.Buffer
		if err := v.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		link := fmt.Sprintf("%s[%d] – %s[%d]", k.A.Node, k.A.Port, k.B.Node, k.B.Port)
		at := strings.Index(b.String(), link)
		if at < 0 {
			t.Fatalf("there is no %s", link)
		}
		before := b.String()[:at]
		if g := before[strings.LastIndex(before, "class="):]; !strings.Contains(g, c.class) {
			t.Errorf("%v of its rate: %q", c.load, g)
		}
	}
}

// Numbers and names can be read on their ground, in both color schemes: WCAG 2.1, 1.4.3, demands a contrast of 4.5.
// Numbers of ports have an edge of the ground's color around them.
func TestContrast(t *testing.T) {
	light, dark, _ := strings.Cut(styles, "@media")
	fill := func(class string, scheme string) string {
		for _, part := range []string{map[string]string{"dark": dark}[scheme], light} {
			if m := regexp.MustCompile(`(?m)(?:^|[},.])` + regexp.QuoteMeta(class) +
				`\{[^}]*?(?:fill|background):(#[0-9a-f]{6})`).FindStringSubmatch(part); m != nil {
				return m[1]
			}
		}
		t.Fatalf("%s has no fill", class)
		return ""
	}
	luminance := func(color string) float64 {
		n, err := strconv.ParseUint(color[1:], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		linear := func(c uint64) float64 {
			v := float64(c&0xff) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, c := range []struct{ text, ground string }{{"text", "bg"}, {"muted", "bg"}, {"text", "switch"},
			{"muted", "switch"}, {"text", "ca"}, {"muted", "ca"},
			{"text", "router"}, {"muted", "router"}, {"text", "off"}, {"muted", "off"}, {"num", "badge"},
			{"port", "bg"}, {"text", "svg"}} {
			a, b := luminance(fill(c.text, scheme)), luminance(fill(c.ground, scheme))
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.1f", scheme, c.text, c.ground, contrast)
			}
		}
	}
}

// Lines with any names fit into 80 columns.
func TestTextFits(t *testing.T) {
	v := running(t, "ring:5,3")
	long := strings.Repeat("a very long näme ", 4)[:60]
	for i := range v.Nodes {
		n := &v.Nodes[i]
		old := n.Name
		n.Name = long + n.Name[len(n.Name)-2:] + string(rune('a'+i))
		for j := range v.Links {
			for _, e := range []*End{&v.Links[j].A, &v.Links[j].B} {
				if e.Node == old {
					e.Node = n.Name
				}
			}
		}
		for j := range n.Ports {
			n.Ports[j].Held = []int{0, 2, 4, 6, 8, 10, 12, 14}
			n.Ports[j].Counters = Counters{1 << 60, 1 << 60, 1 << 60, 1 << 60, 1 << 40, 1 << 40, 1 << 40, 1 << 40,
				1 << 40, 1 << 40, 1 << 60}
		}
	}
	v.Route = v.Trace(End{v.Nodes[5].Name, 1}, End{v.Nodes[19].Name, 1}, tables(v))
	var b bytes.Buffer
	if err := errors.Join(v.WriteText(&b), v.WriteCounters(&b, ""), v.WriteNode(&b, v.Nodes[0].Name)); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if strings.HasPrefix(line, "route from") { // one line of prose
			continue
		}
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestCounters(t *testing.T) {
	v := running(t, "star:2")
	var b bytes.Buffer
	if err := v.WriteCounters(&b, ""); err != nil || b.String() != "all counters are 0\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	v.Nodes[0].Ports[1].Counters = Counters{XmitData: 5 << 20, XmitPackets: 12345, RcvData: 999, RcvPackets: 3,
		SymbolErrors: 7, LinkDowned: 1}
	want := "port                        sent  packets  received  packets\n" +
		"switch-1[2]               5.24MB    12.3k      999B        3\n" +
		"    SymbolErrors 7, LinkDowned 1\n"
	if err := v.WriteCounters(&b, "switch-1"); err != nil || b.String() != want {
		t.Errorf("got\n%s%v, want\n%s", b.String(), err, want)
	}
	for _, err := range []error{v.WriteCounters(&b, "none"), v.WriteNode(&b, "none")} {
		if err == nil || err.Error() != `there is no node "none"` {
			t.Error(err)
		}
	}
}

func TestJSON(t *testing.T) {
	v := running(t, "pair")
	v.Route = v.Trace(End{"host-1", 1}, End{"host-4", 1}, tables(v))
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var again View
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v, &again) {
		t.Errorf("%+v, want %+v", again, v)
	}
	if !bytes.Contains(text, []byte(`"guid":"0x02524a5420000100"`)) {
		t.Errorf("GUIDs are not hexadecimal: %s", text)
	}
	if err := new(GUID).UnmarshalText([]byte("x")); err == nil {
		t.Error("x is a GUID")
	}
}

func TestTrace(t *testing.T) {
	v := running(t, "line:4,1")
	lft := tables(v)
	from, to := End{"host-1", 1}, End{"host-4", 1}
	r := v.Trace(from, to, lft)
	var way []string
	for _, h := range r.Hops {
		way = append(way, h.From.String())
	}
	if got := strings.Join(way, " "); r.Broken != "" ||
		got != "host-1[1] switch-1[3] switch-2[3] switch-3[3] switch-4[1]" || r.FromLID != 5 || r.ToLID != 8 {
		t.Errorf("%s %+v", got, r)
	}
	check := func(want string, hops int) {
		t.Helper()
		if r := v.Trace(from, to, lft); r.Broken != want || len(r.Hops) != hops {
			t.Errorf("after %d hops: %q, want %d, %q", len(r.Hops), r.Broken, hops, want)
		}
	}
	lft("switch-3").Linear[8] = 2
	check("the tables lead in a circle, back to switch-2", 4)
	lft("switch-3").Linear[8] = node.NoRoute
	check("switch-3 has no entry for LID 8", 3)
	v.Nodes[1].Off = true
	check("switch-2 is down", 2)
	v.Nodes[0].Ports[2].State = Down
	check("port 3 of switch-1 is Down", 1)
	v.Nodes[7].Ports[0].LID = 0
	check("host-4[1] has no LID yet", 0)
}

// Pictures of any fabric are XML, and no boxes overlap.
func TestPictures(t *testing.T) {
	for _, text := range []string{"pair", "star:1", "star:24", "star:25", "star:250", "ring:3,1", "ring:60,1",
		"line:9,0", "fat-tree:2,2", "fat-tree:3,3", "fat-tree:10,3", "xgft:16,12;1,6", "xgft:4,4;2,2",
		"xgft:20,20;2,3"} {
		v := running(t, text)
		v.Measured = time.Second
		r := rand.New(rand.NewPCG(1, 2))
		for i := range v.Nodes {
			for j := range v.Nodes[i].Ports {
				v.Nodes[i].Ports[j].Traffic.Sent = 1e9 * r.Float64()
				v.Nodes[i].Ports[j].State = []State{Down, Initialize, Armed, Active, Active}[r.IntN(5)]
			}
		}
		v.Nodes[0].Ports[0].Held, v.Links[0].ErrorRate = []int{0}, 0.5
		if text != "line:9,0" {
			last := &v.Nodes[len(v.Nodes)-1]
			v.Route = v.Trace(End{"host-1", 1}, End{last.Name, 1}, tables(v))
		}
		var b bytes.Buffer
		if err := v.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		if svg, _, _ := strings.Cut(b.String(), ">"); strings.Contains(svg, " width=") ||
			!strings.Contains(svg, "viewBox=") || !strings.Contains(svg, "max-width:") {
			t.Errorf("%s does not follow the window: %s", text, svg)
		}
		checkXML(t, text, b.Bytes(), len(v.Nodes))
		checkBoxes(t, text, v.arrange())
	}
	// Incomplete views are drawn, too.
	for _, v := range []*View{{}, {Nodes: []Node{{Name: "<&\">", Type: Adapter}}},
		{Links: []Link{{A: End{"x", 1}, B: End{"y", 1}}}, Route: &Route{Hops: []Hop{{}}}}} {
		var b bytes.Buffer
		if err := v.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		checkXML(t, "incomplete", b.Bytes(), len(v.Nodes))
		if err := v.WriteText(&b); err != nil {
			t.Fatal(err)
		}
	}
}

func checkXML(t *testing.T, name string, svg []byte, nodes int) {
	t.Helper()
	titles, last := 0, xml.Token(nil)
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s, ok := token.(xml.StartElement); ok && s.Name.Local == "title" {
			titles++
		}
		last = token
	}
	if end, ok := last.(xml.EndElement); ok && end.Name.Local != "svg" || titles < nodes {
		t.Errorf("%s: %d titles for %d nodes, ends with %v", name, titles, nodes, last)
	}
	if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("%!")) {
		t.Errorf("%s: what is drawn is not a number", name)
	}
}

func checkBoxes(t *testing.T, name string, l *layout) {
	t.Helper()
	faults := 0
	for i, a := range l.boxes {
		if a.left() < 0 || a.right() > l.width || a.top() < 0 || a.bottom() > l.height {
			t.Errorf("%s: %s is outside the picture", name, l.view.Nodes[i].Name)
			faults++
		}
		for j, b := range l.boxes[:i] {
			if a.left() < b.right()-0.01 && b.left() < a.right()-0.01 && a.top() < b.bottom()-0.01 &&
				b.top() < a.bottom()-0.01 {
				t.Errorf("%s: %s and %s overlap", name, l.view.Nodes[i].Name, l.view.Nodes[j].Name)
				faults++
			}
		}
		if faults > 5 {
			return
		}
	}
}

// A row whose boxes are wide stays within the picture when its neighbors are at one side.
func TestWideRow(t *testing.T) {
	v := &View{}
	add := func(name string, kind NodeType, ports int) {
		n := Node{Name: name, Type: kind}
		for p := range ports {
			n.Ports = append(n.Ports, Port{Number: p + 1})
		}
		v.Nodes = append(v.Nodes, n)
	}
	for _, name := range []string{"a", "b", "c"} {
		add("leaf-"+name, Switch, 40)
		add("host-"+name, Adapter, 1)
		v.Links = append(v.Links, Link{A: End{"leaf-" + name, 1}, B: End{"host-" + name, 1}})
	}
	for i := range 12 {
		name := "a spine switch with a long name " + string(rune('a'+i))
		add(name, Switch, 1)
		v.Links = append(v.Links, Link{A: End{name, 1}, B: End{"leaf-c", i + 2}})
	}
	checkBoxes(t, "wide row", v.arrange())
}

// Nodes with the same description are told apart by their GUIDs.
func TestSameDescription(t *testing.T) {
	v := &View{Nodes: []Node{
		{Name: "S-0000000000abcdef", Description: "a switch", GUID: 0xabcdef},
		{Name: "S-0000000000123456", Description: "a switch", GUID: 0x123456},
		{Name: "S-0000000000000001", Description: "another", GUID: 1},
	}}
	if got := v.index().labels; !reflect.DeepEqual(got, []string{"abcdef a switch", "123456 a switch", "another"}) {
		t.Errorf("%q", got)
	}
}

func TestRanks(t *testing.T) {
	v := running(t, "fat-tree:3,3")
	// An adapter at a spine switch does not make it a leaf.
	v.Nodes = append(v.Nodes, Node{Name: "manager", Type: Adapter, Ports: []Port{{Number: 1}}})
	spine := v.index().nodes["spine-1"]
	v.Nodes[spine].Ports = append(v.Nodes[spine].Ports, Port{Number: 7})
	v.Links = append(v.Links, Link{A: End{"spine-1", 7}, B: End{"manager", 1}})
	x := v.index()
	rank := x.ranks(x.neighbors())
	for i := range v.Nodes {
		want := map[string]int{"host": 0, "manager": 0, "leaf": 1, "spine": 2,
			"core": 3}[strings.Split(v.Nodes[i].Name, "-")[0]]
		if rank[i] != want {
			t.Errorf("%s is in row %d, want %d", v.Nodes[i].Name, rank[i], want)
		}
	}
}

// The order of rows never has more crossings than that of names, and counting them is right.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		next, rank := make([][]int, 30), make([]int, 30)
		v := &View{Nodes: make([]Node, 30)}
		for i := range rank {
			rank[i] = i / 10
			v.Nodes[i].Name = string(rune('a' + i))
		}
		for range 40 {
			a := r.IntN(20)
			b := (a/10+1)*10 + r.IntN(10)
			next[a], next[b] = append(next[a], b), append(next[b], a)
		}
		rows := [][]int{nil, nil, nil}
		for i := range rank {
			rows[rank[i]] = append(rows[rank[i]], i)
		}
		before := crossings(rows, rank, next)
		if want := slowCrossings(rows, rank, next); before != want {
			t.Fatalf("%d crossings, want %d", before, want)
		}
		if after := crossings(v.index().order(rank, next), rank, next); after > before {
			t.Errorf("%d crossings, %d by name", after, before)
		}
	}
}

func slowCrossings(rows [][]int, rank []int, next [][]int) int {
	place := make(map[int]int)
	var links [][2]int
	for _, row := range rows {
		for i, n := range row {
			place[n] = i
		}
	}
	for a := range next {
		for _, b := range next[a] {
			if rank[b] == rank[a]+1 {
				links = append(links, [2]int{a, b})
			}
		}
	}
	total := 0
	for i, l := range links {
		for _, m := range links[:i] {
			if rank[l[0]] == rank[m[0]] && (place[l[0]]-place[m[0]])*(place[l[1]]-place[m[1]]) < 0 {
				total++
			}
		}
	}
	return total
}

func TestNaturalCompare(t *testing.T) {
	names := []string{"", "a", "host-2", "host-10", "host-10-1", "host-b", "x1y2", "x1y10", "x99999999999999999999999"}
	for i := range names {
		for j := range names {
			if got := naturalCompare(names[i], names[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q, %q: %d", names[i], names[j], got)
			}
		}
	}
}

// Nodes from ibnetdiscover are called by their descriptions.
func TestLabel(t *testing.T) {
	for _, c := range []struct {
		n    Node
		want string
	}{
		{Node{Name: "H-0002c90300293e1e", Description: "host mlx4_0"}, "host mlx4_0"},
		{Node{Name: "H-0002c90300293e1e"}, "H-0002c90300293e1e"},
		{Node{Name: "leaf", Description: "x"}, "leaf"},
	} {
		if got := c.n.Label(); got != c.want {
			t.Errorf("%+v: %q", c.n, got)
		}
	}
}
