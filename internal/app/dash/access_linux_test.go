// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// axNode is a node of the browser's tree for screen readers.
type axNode struct {
	NodeID, ParentID string
	ChildIDs         []string
	Ignored          bool
	Role, Name       struct{ Value any }
	Properties       []struct {
		Name  string
		Value struct{ Value any }
	}
}

func (n *axNode) role() string { return fmt.Sprint(n.Role.Value) }

func (n *axNode) name() string {
	if n.Name.Value == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(n.Name.Value))
}

// access returns the nodes that a screen reader gets, in its order, and writes it beside the pictures.
func (b *browser) access(name string) (all []axNode) {
	b.t.Helper()
	var tree struct{ Nodes []axNode }
	b.do("Accessibility.getFullAXTree", nil, &tree)
	by := map[string]*axNode{}
	for i := range tree.Nodes {
		by[tree.Nodes[i].NodeID] = &tree.Nodes[i]
	}
	var text strings.Builder
	var walk func(n *axNode, depth int)
	walk = func(n *axNode, depth int) {
		if role := n.role(); !n.Ignored && role != "InlineTextBox" && role != "none" && role != "generic" {
			all = append(all, *n)
			fmt.Fprintf(&text, "%s%s %q\n", strings.Repeat(" ", depth), role, n.name())
			depth++
		}
		for _, id := range n.ChildIDs {
			if c := by[id]; c != nil {
				walk(c, depth)
			}
		}
	}
	walk(&tree.Nodes[0], 0)
	if folder := os.Getenv("DASH_PICTURES"); folder != "" {
		if err := os.WriteFile(folder+"/"+name+".txt", []byte(text.String()), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	return all
}

// checkAccess checks that all nodes that can be used or looked at have names.
func checkAccess(t *testing.T, where string, all []axNode, want map[string]int) {
	t.Helper()
	named := []string{"button", "link", "combobox", "searchbox", "textbox", "table", "image", "img", "dialog", "region",
		"alertdialog", "row", "columnheader", "rowheader", "listitem", "DisclosureTriangle", "SvgRoot", "group",
		"option"}
	count := map[string]int{}
	for i := range all {
		n := &all[i]
		role := n.role()
		focusable := slices.ContainsFunc(n.Properties, func(p struct {
			Name  string
			Value struct{ Value any }
		}) bool {
			return p.Name == "focusable" && p.Value.Value == true
		})
		count[role]++
		if n.name() == "" && (focusable && role != "RootWebArea" ||
			slices.Contains(named, role) && role != "row" && role != "listitem") {
			t.Errorf("%s: a %s has no name", where, role)
		}
	}
	for role, n := range want {
		if count[role] < n {
			t.Errorf("%s: %d of role %s, want %d: %v", where, count[role], role, n, count)
		}
	}
}

// A screen reader gets a name and a role of all that can be used, tables as tables, and graphs in words; on wide pages
// and on narrow ones. Errors are linked to their explanations.
func TestPageAccess(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	list := crowd()
	d := &list[0].State.Devices[0]
	d.Ports[0].State = verbs.PortDown
	d.Conns = []driver.ConnInfo{{State: "failed",
		Failed: "verbs: connect: no answer in time: 192.0.2.9:7471 does not answer"}}
	for _, op := range []verbs.WCOp{verbs.WCSend, verbs.WCWrite} {
		h := verbs.Latency{Op: op}
		for i := range 1000 {
			h.Add(time.Duration(8+i*i/9000) * time.Microsecond)
		}
		d.Latencies = append(d.Latencies, h)
	}
	d.QPs[4].DestQPN, d.QPs[4].RetryCount, d.QPs[4].RNRRetry = 7, 5, 7
	silent := packets() // the request twice, without an answer
	silent.Packets[1] = silent.Packets[0]
	silent.Packets[1].At += 1e9
	_, url, _ := serveAt(t, &world{list: list, packets: silent}, "127.0.0.1:0", "")
	for _, width := range []int{1400, 420} {
		b.open(url, width, 900, "light")
		b.await("document.querySelectorAll('#list .open').length === 21 && document.querySelectorAll('#graphs .line').length > 1 && document.querySelector('#graphs .bar-box')")
		b.eval("document.querySelector('#map-of').open = true")
		b.await("document.querySelector('#map .map-line.failed')")
		b.eval("scrollTo(0, 0)")
		b.picture(fmt.Sprintf("access-%d", width))
		want := map[string]int{"table": 1, "rowheader": 2, "row": 23, "cell": 21 * 10, "image": 4, "searchbox": 1,
			"combobox": 2, "alert": 0, "banner": 1, "main": 1}
		if width == 1400 {
			want["columnheader"] = len("QTSPSRMRWISL")
		}
		checkAccess(t, fmt.Sprint(width), b.access(fmt.Sprintf("access-%d", width)), want)
		b.await("/^Completion latency, SEND, 1,000 samples. median ≤ [0-9]+ µs/.test(document.querySelector('#graphs .histogram svg').ariaLabel)")

		// Errors of the device, of the connection, and on the map.
		for _, from := range []string{"'#list .why'", "'#list .why:nth-child(2)'", "'#list .why:nth-child(3)'",
			"'#map .map-line.failed'"} {
			b.eval("document.querySelector(" + from + ").focus()")
			b.press("Enter")
			b.await("document.querySelector('#why').open && document.querySelector('#why-text').innerText.includes('The usual causes')")
			if from == "'#list .why'" {
				b.picture(fmt.Sprintf("why-%d", width))
				checkAccess(t, "why", b.access("why"), map[string]int{"dialog": 1, "heading": 2, "button": 1})
			}
			b.press("Escape")
			b.await("!document.querySelector('#why').open")
		}
		b.eval("document.querySelector('#list tr.has-failed .open').click()")
		b.await("document.querySelector('#ladder').shadowRoot.querySelector('svg') && document.querySelector('#detail .bar-box')")
		b.picture(fmt.Sprintf("access-detail-%d", width))
		b.await("document.querySelector('#ladder-ends').innerText.includes('no answer to PSN 77 of 0.0.0.5 after retry 1 of 5')")
		b.eval("document.querySelector('#ladder-title').scrollIntoView()")
		b.picture(fmt.Sprintf("access-ladder-%d", width))
		checkAccess(t, "details", b.access(fmt.Sprintf("access-detail-%d", width)),
			map[string]int{"dialog": 1, "heading": 3, "image": 4, "listitem": 2})
		b.press("Escape")
		b.await("!document.querySelector('#detail').open")
	}
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}
