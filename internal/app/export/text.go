// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// namespace begins all names.
const namespace = "ramjet_"

// latencies is the name of the histograms.
const latencies = "completion_latency_seconds"

// label is a label of a series. One without a value counts as absent, as in Prometheus.
type label struct{ name, value string }

// family is all series of a name.
type family struct {
	help, kind string
	series     []string // their labels and values, as they are written
}

// text collects series, and writes them in Prometheus's text format, version 0.0.4.
type text struct {
	families map[string]*family
	seen     map[string]bool // names with labels
	extra    int             // series of histograms beyond the first of each
}

func newText() *text { return &text{families: map[string]*family{}, seen: map[string]bool{}} }

// add adds a series. A series that there is already, or that is of another kind than its name, is left out: a process
// has made it up.
func (t *text) add(name, help string, kind metric.Kind, value string, labels ...label) {
	name = namespace + identifier(name)
	if strings.HasPrefix(name, namespace+latencies+"_") {
		return // it would be taken for a part of the histogram
	}
	if f, set := t.family(name, help, kind.String(), labels); f != nil {
		if set != "" {
			set = "{" + set + "}"
		}
		f.series = append(f.series, set+" "+value)
	}
}

// histogram adds the series of a histogram: its buckets, which are cumulative, then sum and count.
func (t *text) histogram(name, help string, h *verbs.Latency, labels ...label) {
	f, set := t.family(namespace+identifier(name), help, "histogram", labels)
	if f == nil {
		return
	}
	below := uint64(0)
	for i, n := range h.Buckets {
		below += n
		bound := "+Inf"
		if i < len(h.Buckets)-1 {
			bound = decimal(metric.Bound(i).Seconds())
		}
		f.series = append(f.series, "_bucket{"+set+`,le="`+bound+`"} `+strconv.FormatUint(below, 10))
		t.extra++
	}
	f.series = append(f.series, "_sum{"+set+"} "+decimal(h.Sum.Seconds()),
		"_count{"+set+"} "+strconv.FormatUint(below, 10))
	t.extra++
}

// family returns where a new series belongs, and its labels; nil if there is one with the same, or if the name is of
// another kind.
func (t *text) family(name, help, kind string, labels []label) (f *family, set string) {
	if f = t.families[name]; f == nil {
		f = &family{help: help, kind: kind}
		t.families[name] = f
	}
	set = setOf(labels)
	if f.kind != kind || t.seen[name+set] {
		return nil, ""
	}
	t.seen[name+set] = true
	return f, set
}

// setOf writes labels. One without a value is left out, and so is the second one of a name.
func setOf(labels []label) string {
	var b strings.Builder
	had := map[string]bool{}
	for _, l := range labels {
		key := identifier(l.name)
		if l.value == "" || had[key] {
			continue
		}
		if had[key] = true; len(had) > 1 {
			b.WriteByte(',')
		}
		b.WriteString(key + `="` + escapeValue.Replace(strings.ToValidUTF8(l.value, "?")) + `"`)
	}
	return b.String()
}

// size returns how many series there are.
func (t *text) size() int { return len(t.seen) + t.extra }

// bytes returns everything, by name.
func (t *text) bytes() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(t.families)) {
		f := t.families[name]
		if help := escapeHelp.Replace(strings.ToValidUTF8(f.help, "?")); help != "" {
			b.WriteString("# HELP " + name + " " + help + "\n")
		}
		b.WriteString("# TYPE " + name + " " + f.kind + "\n")
		for _, s := range f.series {
			b.WriteString(name + s + "\n")
		}
	}
	return b.Bytes()
}

var (
	escapeValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// identifier returns a name of the letters, digits and underscores that names may have.
func identifier(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return s
}

func whole[T ~int | ~int64 | ~uint64](n T) string { return strconv.FormatInt(int64(n), 10) }

func decimal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
