// SPDX-License-Identifier: Apache-2.0

// Package explain says what the errors of RDMA mean and what usually causes them: statuses of completions,
// reasons behind them, asynchronous events, NAKs, causes of iWARP's Terminate messages, and reasons for which
// connection managers reject.
package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Entry explains one error.
type Entry struct {
	Kind   Kind     `json:"kind"`
	Name   string   `json:"name"`   // such as IBV_WC_RETRY_EXC_ERR
	Number int      `json:"number"` // within its kind
	Text   string   `json:"text"`   // as Ramjet prints it
	Means  string   `json:"means"`
	Causes []string `json:"causes,omitempty"` // the most frequent first
}

// Kind is what an error is one of.
type Kind string

const (
	Status    Kind = "completion status"
	Reason    Kind = "reason of a failure (vendor_err of Ramjet)"
	Event     Kind = "asynchronous event"
	NAK       Kind = "NAK code of a responder"
	Terminate Kind = "cause of an iWARP Terminate"
	Reject    Kind = "reason of a connection manager's REJ"
)

// words are what a number can stand behind, to say of which kind it is.
var words = map[string]Kind{"wc": Status, "status": Status, "vendor_err": Reason, "reason": Reason, "event": Event, "nak": NAK,
	"terminate": Terminate, "cause": Terminate, "rej": Reject, "reject": Reject}

// prefixes can be left out of names.
var prefixes = []string{"ibv_wc_", "ibv_event_", "ib_cm_rej_", "reason_", "nak_", "term_"}

// All returns all entries, by kind.
func All() []Entry {
	return slices.Concat(statuses(), reasons(), events(), naks(), terminates(), rejects())
}

// Find returns the entries for what somebody read somewhere: a name, with or without its prefix, a text, a
// number, or a number behind the word for its kind, such as "rej 28". Several can have one number. none: it is
// not known.
func Find(text string) (found []Entry) {
	text = normal(text)
	kind, rest := Kind(""), text
	if word, number, ok := strings.Cut(text, " "); ok && words[word] != "" {
		if _, err := strconv.ParseInt(number, 0, 32); err == nil {
			kind, rest = words[word], number
		}
	}
	number, err := strconv.ParseInt(rest, 0, 32)
	all := All()
	if i := slices.IndexFunc(all, func(e Entry) bool { return normal(e.Name) == text }); i >= 0 {
		return all[i : i+1]
	}
	for _, e := range all {
		switch {
		case err == nil:
			if int64(e.Number) == number && (kind == "" || kind == e.Kind) {
				found = append(found, e)
			}
		case bare(e.Name) == bare(text), normal(e.Text) == text:
			found = append(found, e)
		}
	}
	return found
}

// Names returns what Find knows, as suggestions are made of.
func Names() (names []string) {
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}

// ShortNames returns all names without their prefixes, such as REM_ACCESS_ERR.
func ShortNames() (names []string) {
	for _, name := range Names() {
		names = append(names, strings.ToUpper(bare(name)))
	}
	return names
}

// Like returns up to five names that have something of a text that is not known.
func Like(text string) (names []string) {
	parts := strings.FieldsFunc(bare(normal(text)), func(r rune) bool { return r == ' ' || r == '_' })
	type match struct {
		name  string
		score int
	}
	var matches []match
	for _, e := range All() {
		score := 0
		in := strings.FieldsFunc(bare(e.Name)+" "+normal(e.Text), func(r rune) bool { return r == ' ' || r == '_' })
		for _, p := range parts {
			for _, w := range in {
				if w == p {
					score += 2 + len(p)
					break
				}
				if len(p) > 2 && (strings.HasPrefix(w, p) || strings.HasPrefix(p, w) && len(w) > 2) {
					score += 2
					break
				}
			}
		}
		if score > 0 {
			matches = append(matches, match{e.Name, score})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return b.score - a.score })
	for _, m := range matches[:min(len(matches), 5)] {
		names = append(names, m.name)
	}
	return names
}

// normal returns a text in lower case with single spaces.
func normal(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// bare returns a name without its prefix.
func bare(s string) string {
	s = strings.ReplaceAll(normal(s), "-", "_")
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest
		}
	}
	return s
}

// explained is the part of an entry that is written by hand.
type explained struct {
	name   string
	means  string
	causes []string
}

// entries puts a kind together; index is the number.
func entries(k Kind, list []explained, text func(number int) string) (all []Entry) {
	for n, e := range list {
		if e.name != "" {
			all = append(all, Entry{k, e.name, n, text(n), e.means, e.causes})
		}
	}
	return all
}

// Title is the first line of an entry.
func (e *Entry) Title() string {
	number := fmt.Sprint(e.Number)
	if e.Kind == Terminate {
		number = fmt.Sprintf("%#04x", e.Number)
	}
	return fmt.Sprintf("%s (%s): %s", e.Name, number, e.Text)
}
