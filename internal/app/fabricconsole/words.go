// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// word is a part of a line: a bare word, or a name between quotes; with a port's number if a bracket
// follows.
type word struct {
	text   string
	quoted bool
	port   int // 0: no bracket
}

// words are what a command has not looked at yet.
type words struct {
	rest []word
}

// split takes a line apart. A # outside of quotes begins a comment if it is at the start of a word:
// names of modules have one inside.
func split(line string) ([]word, error) {
	var all []word
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '#':
			return all, nil
		case c == '[':
			number, rest, ok := strings.Cut(line[i+1:], "]")
			v, err := strconv.ParseUint(strings.TrimSpace(number), 10, 8)
			if !ok || err != nil || v == 0 || v == 255 {
				return nil, fmt.Errorf("%q is not a port: write its number, from 1 to 254, between brackets behind the node's name", line[i:])
			}
			if len(all) == 0 || all[len(all)-1].port != 0 {
				return nil, fmt.Errorf("[%d] belongs to no node: write the node's name before it", v)
			}
			all[len(all)-1].port = int(v)
			i = len(line) - len(rest)
		case c == '"':
			text, rest, ok := strings.Cut(line[i+1:], `"`)
			if !ok {
				return nil, errors.New("the last quote is not closed")
			}
			all = append(all, word{text: text, quoted: true})
			i = len(line) - len(rest)
		default:
			end := i
			for end < len(line) && !strings.ContainsRune(" \t\r[\"", rune(line[end])) {
				end++
			}
			all = append(all, word{text: line[i:end]})
			i = end
		}
	}
	return all, nil
}

// parse understands a line. No action: there is nothing in it.
func parse(line string) (action, error) {
	if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\r' }) {
		return nil, errors.New("there is a control character in the line: take it out")
	}
	trimmed := strings.TrimSpace(line)
	if name, ok := strings.CutPrefix(trimmed, "!"); ok { // as ibsim
		trimmed = "run " + name
	}
	if trimmed == "" || trimmed[0] == '#' {
		return nil, nil
	}
	verb, rest := trimmed, ""
	if end := strings.IndexAny(trimmed, " \t"); end >= 0 {
		verb, rest = trimmed[:end], trimmed[end:]
	}
	cmd, err := command(verb)
	if err != nil {
		return nil, err
	}
	if cmd.parse == nil {
		return printing(strings.TrimSpace(rest)), nil
	}
	all, err := split(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: the command is: %s", err, cmd.usage)
	}
	w := &words{all}
	act, err := cmd.parse(w)
	if err == nil && len(w.rest) > 0 {
		err = fmt.Errorf("%q is one argument too many", w.rest[0].text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the command is: %s", err, cmd.usage)
	}
	return act, nil
}

// command finds a command by its name or the beginning of it.
func command(name string) (*spec, error) {
	var found []string
	var one *spec
	for i := range commands {
		c := &commands[i]
		verb, _, _ := strings.Cut(c.usage, " ")
		if strings.EqualFold(verb, name) {
			return c, nil
		}
		if len(name) > 0 && len(name) <= len(verb) && strings.EqualFold(verb[:len(name)], name) {
			found, one = append(found, verb), c
		}
	}
	switch {
	case len(found) == 1:
		return one, nil
	case len(found) > 1:
		return nil, fmt.Errorf("%q may be %s: write one more letter", name, strings.Join(found, " or "))
	case name == "?":
		return command("help")
	}
	return nil, fmt.Errorf("there is no command %q: help shows all", name)
}

// next takes the next word.
func (w *words) next(what string) (word, error) {
	if len(w.rest) == 0 {
		return word{}, fmt.Errorf("%s is missing", what)
	}
	first := w.rest[0]
	w.rest = w.rest[1:]
	return first, nil
}

// bare takes the next word if it is a certain one without quotes and bracket.
func (w *words) bare(text string) bool {
	if len(w.rest) > 0 && !w.rest[0].quoted && w.rest[0].port == 0 && strings.EqualFold(w.rest[0].text, text) {
		w.rest = w.rest[1:]
		return true
	}
	return false
}

// target takes a node or a port.
func (w *words) target() (target, error) {
	n, err := w.next("the name of a node")
	if err == nil && n.text == "" {
		err = errors.New("the name of the node is empty")
	}
	return target{n.text, n.port}, err
}

// port takes a node with a port.
func (w *words) port() (target, error) {
	t, err := w.target()
	if err == nil && t.port == 0 {
		err = fmt.Errorf("the port of %q is missing: write %[1]q[1]", t.name)
	}
	return t, err
}

// oneOf takes one of some words, and returns which.
func (w *words) oneOf(choices ...string) (int, error) {
	for i, c := range choices {
		if w.bare(c) {
			return i, nil
		}
	}
	what := strings.Join(choices, " or ")
	if len(w.rest) == 0 {
		return 0, fmt.Errorf("%s is missing", what)
	}
	return 0, fmt.Errorf("%q is not %s", w.rest[0].text, what)
}

// maxWait bounds what a command waits.
const maxWait = time.Hour

// duration takes a time, such as 500ms or 2s; a number alone is seconds, as in ibsim.
func (w *words) duration() (time.Duration, error) {
	text, err := w.next("the time")
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text.text)
	if err != nil {
		d, err = time.ParseDuration(text.text + "s")
	}
	if err != nil || text.quoted || text.port != 0 || d < 0 || d > maxWait {
		return 0, fmt.Errorf("%q is not a time: write 500ms, 2s or 1m, at most an hour", text.text)
	}
	return d, nil
}

// within takes "within 5s" or nothing.
func (w *words) within(otherwise time.Duration) (time.Duration, error) {
	if !w.bare("within") {
		return otherwise, nil
	}
	return w.duration()
}

// rate takes a share, such as 0.01 or 1%.
func (w *words) rate() (float64, error) {
	text, err := w.next("the share of packets that is corrupted")
	if err != nil {
		return 0, err
	}
	number, percent := strings.CutSuffix(text.text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not a share: write 0 to 1, or 0%% to 100%%", text.text)
	}
	return v, nil
}
