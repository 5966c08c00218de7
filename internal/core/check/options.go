// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/spell"
)

// Variable is the environment's variable that has a process checked, with the options as its value.
const Variable = "RAMJET_CHECK"

// DefaultExitCode is the exit status of a C program that has findings and does not fail by itself.
const DefaultExitCode = 66

// Options are the options of a checker.
type Options struct {
	Log      string        // the file for reports, with %p for the process's id; empty: standard error
	ExitCode int           // of C programs that have findings; 0: as without them
	Off      map[Rule]bool // rules that are not checked
	Protect  bool          // pages of C programs that must not be touched
}

// ParseOptions parses options: words with blanks between them. "1" and an empty text stand for the defaults.
//
//	log=FILE off=leak,race exitcode=0 protect
func ParseOptions(text string) (*Options, error) {
	o := &Options{ExitCode: DefaultExitCode, Off: map[Rule]bool{}}
	if strings.TrimSpace(text) == "1" {
		return o, nil
	}
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			return o, nil
		}
		column := len([]rune(text[:len(text)-len(rest)])) + 1
		word := rest
		if i := strings.IndexAny(rest, " \t"); i >= 0 {
			word = rest[:i]
		}
		rest = rest[len(word):]
		if err := o.set(word); err != nil {
			return nil, fmt.Errorf("column %d: %q: %w", column, word, err)
		}
	}
}

func (o *Options) set(word string) error {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "log":
		if value == "" {
			return fmt.Errorf("expected log=FILE")
		}
		o.Log = value
	case "exitcode":
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return fmt.Errorf("expected exitcode=N, from 0 to 255")
		}
		o.ExitCode = int(n)
	case "off":
		for _, r := range strings.Split(value, ",") {
			if r == "" {
				return fmt.Errorf("expected off=RULE,RULE, without blanks")
			}
			if find(Rule(r)) == nil {
				return fmt.Errorf("there is no rule %q%s", r, meant(r, ruleNames()))
			}
			o.Off[Rule(r)] = true
		}
	case "protect":
		if word != name {
			return fmt.Errorf("expected protect, without a value")
		}
		o.Protect = true
	default:
		return fmt.Errorf("expected log=FILE, off=RULE,RULE, exitcode=N or protect%s",
			meant(name, []string{"log", "off", "exitcode", "protect"}))
	}
	return nil
}

// meant returns a question for somebody who has mistyped one of names; empty if none is like it.
func meant(word string, names []string) string {
	if m := spell.Nearest(word, names, 3); m != "" {
		return fmt.Sprintf(": did you mean %s?", m)
	}
	return ""
}
