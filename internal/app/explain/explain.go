// SPDX-License-Identifier: Apache-2.0

// Package explain has the meaning, the usual causes and the remedies of RDMA's errors: errors that calls return,
// statuses of completions, the reasons behind them, asynchronous events, NAKs, causes of iWARP's Terminate messages,
// and the events and REJ reasons of connection managers.
package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entry explains one error.
type Entry struct {
	Kind   Kind     `json:"kind"`
	Name   string   `json:"name"`           // such as IBV_WC_RETRY_EXC_ERR
	Number int      `json:"number"`         // within its kind; of a call the errno, which several can share
	Text   string   `json:"text"`           // as Ramjet prints it
	Also   []string `json:"also,omitempty"` // other names and texts of it
	Means  string   `json:"means"`
	Causes []Cause  `json:"causes,omitempty"` // the most frequent first
}

// Cause is a possible cause of an error.
type Cause struct {
	What  string `json:"what"`
	Check string `json:"check,omitempty"` // a command, or where to look, that tells it from other causes
	Mend  string `json:"mend,omitempty"`  // the remedy
}

// because makes causes that say themselves where to look.
func because(texts ...string) (causes []Cause) {
	for _, t := range texts {
		causes = append(causes, Cause{What: t})
	}
	return causes
}

// Kind is the kind of an error.
type Kind string

const (
	Status    Kind = "completion status"
	Reason    Kind = "reason of a failure (vendor_err of Ramjet)"
	Event     Kind = "asynchronous event"
	NAK       Kind = "NAK code of a responder"
	Terminate Kind = "cause of an iWARP Terminate"
	Reject    Kind = "reason of a connection manager's REJ"

	ConnectionEvent Kind = "event of a connection manager"
	Call            Kind = "error of a call"
	Failed          Kind = "failed call of a C library"
	Message         Kind = "message of a program or a driver"
)

// words are the words before a number that tell its kind.
var words = map[string]Kind{"wc": Status, "status": Status, "vendor_err": Reason, "reason": Reason, "event": Event,
	"nak": NAK, "terminate": Terminate, "cause": Terminate, "rej": Reject, "reject": Reject,
	"cm_event": ConnectionEvent,
	"errno":    Call}

// synonyms are the other names of an error.
var synonyms = map[string][]string{
	"IBV_WC_RNR_RETRY_EXC_ERR": {"RNR", "RNR NAK", "receiver not ready", "receive-no-ready retry count exceeded",
		"RNR retry exceeded"},
	"IBV_WC_RETRY_EXC_ERR":   {"transport retry count exceeded", "retry exceeded error", "transport retry exceeded"},
	"IBV_WC_WR_FLUSH_ERR":    {"WR flushed", "work request flushed"},
	"IBV_WC_LOC_PROT_ERR":    {"local protection", "local protocol error"},
	"IBV_WC_LOC_QP_OP_ERR":   {"local QP operation"},
	"IBV_WC_REM_OP_ERR":      {"remote operation", "remote QP"},
	"IBV_WC_REM_ACCESS_ERR":  {"remote access"},
	"IBV_WC_REM_INV_REQ_ERR": {"remote invalid request"},
	"IBV_WC_MW_BIND_ERR":     {"memory bind error", "memory window bind"},
}

// prefixes can be left out of names.
var prefixes = []string{"ibv_wc_", "ibv_event_", "ib_cm_rej_", "reason_", "nak_", "term_", "rdma_cm_event_",
	"verbs.err", "cm.err", "infiniband.err", "cm.", "err"}

// All returns all entries, by kind.
func All() []Entry {
	return slices.Concat(statuses(), reasons(), events(), naks(), terminates(), rejects(), connectionEvents(), calls(),
		failedCalls(), messages())
}

// Find returns the entries for a pasted text: one that Exactly knows, or a line of a log. none: it is not known.
func Find(pasted string) []Entry {
	if found := Exactly(pasted); len(found) > 0 {
		return found
	}
	if f, _ := Log(strings.NewReader(pasted)); f != nil {
		return f.Entries
	}
	return nil
}

// Exactly returns the entries for a name, with or without its prefix, a text, a number, or a number behind the word for
// its kind, such as "rej 28". Several can have one number.
func Exactly(text string) []Entry {
	text = normal(text)
	all := All()
	if i := slices.IndexFunc(all, func(e Entry) bool { return normal(e.Name) == text }); i >= 0 {
		return all[i : i+1]
	}
	kind, rest := Kind(""), text
	if word, number, ok := strings.Cut(text, " "); ok && words[word] != "" {
		kind, rest = words[word], number
	}
	if number, err := strconv.ParseInt(rest, 0, 32); err == nil {
		return withNumber(all, kind, number)
	}
	for _, is := range []func(e *Entry) bool{
		func(e *Entry) bool { return bare(e.Name) == bare(text) || normal(e.Text) == text },
		func(e *Entry) bool {
			return slices.ContainsFunc(e.Also, func(s string) bool { return normal(s) == text })
		},
	} {
		if found := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return !is(&e) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// withNumber returns the entries of a kind, or of all, that have a number. 0 is not an errno.
func withNumber(all []Entry, kind Kind, number int64) (found []Entry) {
	for _, e := range all {
		if int64(e.Number) == number && (kind == "" || kind == e.Kind) && !(e.Kind == Call && number == 0) {
			found = append(found, e)
		}
	}
	return found
}

// known is an entry and the texts that a line can have of it, in lower case.
type known struct {
	entry Entry
	texts []string
}

// knownAs makes a known of an entry. Single words are too common to be looked for in a line, unless they are names.
func knownAs(e Entry, texts ...string) known {
	k := known{entry: e}
	for _, s := range texts {
		if s = normal(s); strings.ContainsAny(s, " _.") {
			k.texts = append(k.texts, s)
		}
	}
	return k
}

// within returns the entries that have a text which is part of a line. Where one text is part of another, as "no
// answer" is of "no answer in time", the longer one counts.
func within(all []known, line string) (found []Entry) {
	var matched []string
	for i := range all {
		at := slices.IndexFunc(all[i].texts,
			func(s string) bool { return strings.Contains(line, s) && hasWords(line, s) })
		if at >= 0 {
			found = append(found, all[i].entry)
			matched = append(matched, all[i].texts[at])
		}
	}
	kept := found[:0]
	for i, e := range found {
		if !slices.ContainsFunc(matched,
			func(other string) bool { return len(other) > len(matched[i]) && strings.Contains(other, matched[i]) }) {
			kept = append(kept, e)
		}
	}
	return kept
}

// hasWords says whether words are part of a line, and not of longer words there.
func hasWords(line, words string) bool {
	inWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := strings.Index(line, words); at >= 0; {
		before, _ := utf8.DecodeLastRuneInString(line[:at])
		after, _ := utf8.DecodeRuneInString(line[at+len(words):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		next := strings.Index(line[at+1:], words)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return false
}

// Names returns the names that are one word, as suggestions are made of.
func Names() (names []string) {
	for _, e := range All() {
		if !strings.ContainsAny(e.Name, " ") {
			names = append(names, e.Name)
		}
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
		if strings.Contains(e.Name, " ") {
			continue
		}
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
	causes []Cause
}

// entries puts a kind together; index is the number.
func entries(k Kind, list []explained, text func(number int) string) (all []Entry) {
	for n, e := range list {
		if e.name != "" {
			all = append(all, Entry{k, e.name, n, text(n), synonyms[e.name], e.means, e.causes})
		}
	}
	return all
}

// Title is the first line of an entry.
func (e *Entry) Title() string {
	number := fmt.Sprintf(" (%d)", e.Number)
	switch {
	case e.Kind == Failed || e.Kind == Message:
		return e.Text
	case e.Kind == Terminate:
		number = fmt.Sprintf(" (%#04x)", e.Number)
	case e.Kind == Call && e.Number == 0:
		number = ""
	case e.Kind == Call:
		number = " (" + e.Also[0] + ")"
	}
	return e.Name + number + ": " + e.Text
}
