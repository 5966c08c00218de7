// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxProblems is how many problems of a device are in an answer. Problems of one text are one.
const maxProblems = 4

// problems adds the problems of a device: ports that are down, connections and queue pairs that have failed.
func (b *builder) problems(out *Device, d *live.Device) {
	add := func(text, err string) {
		if len(out.Problems) == maxProblems {
			out.MoreProblems++
			return
		}
		b.explain(err)
		out.Problems = append(out.Problems, Problem{text, err})
	}
	for i := range d.Info.Ports {
		if p := &d.Info.Ports[i]; p.State == verbs.PortDown {
			add(fmt.Sprintf("port %d is down", p.Num), "IBV_EVENT_PORT_ERR")
		}
	}
	var conns, qps tally
	for i := range d.Info.Conns {
		conns.add(d.Info.Conns[i].Failed)
	}
	for _, q := range d.QPs {
		if q.Gone.IsZero() {
			qps.add(q.Info.Failed)
		}
	}
	for _, e := range conns.list {
		add(units.Plural(e.n, "connection")+" failed: "+e.text, e.text)
	}
	for _, e := range qps.list {
		add(units.Plural(e.n, "queue pair")+" failed: "+e.text, e.text)
	}
}

// tally counts texts, in the order in which they came first.
type tally struct {
	list []counted
	at   map[string]int
}

type counted struct {
	text string
	n    int
}

func (t *tally) add(text string) {
	if text == "" {
		return
	}
	i, ok := t.at[text]
	if !ok {
		if t.at == nil {
			t.at = map[string]int{}
		}
		i = len(t.list)
		t.at[text] = i
		t.list = append(t.list, counted{text: text})
	}
	t.list[i].n++
}

// explain adds the meaning of an error, if it is known.
func (b *builder) explain(err string) {
	if _, ok := b.Explained[err]; ok || err == "" {
		return
	}
	if list := explained(err); len(list) > 0 {
		b.Explained[err] = list
	}
}

// Explained is the meaning of an error.
type Explained struct {
	Title  string          `json:"title"`
	Means  string          `json:"means"`
	Causes []explain.Cause `json:"causes"` // the most frequent first
}

// explained explains an error in a queue pair's words: a status or a reason, and after a colon further facts.
func explained(text string) []Explained {
	list := []Explained{} // an array in JSON
	found := explain.Find(text)
	for rest := text; len(found) == 0 && rest != ""; {
		i := strings.LastIndex(rest, ": ")
		if i < 0 {
			break
		}
		rest = rest[:i]
		found = explain.Find(rest)
	}
	for i := range found {
		list = append(list, Explained{found[i].Title(), found[i].Means, found[i].Causes})
	}
	return list
}
