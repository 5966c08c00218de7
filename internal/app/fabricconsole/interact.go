// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// maxScript bounds the bytes that are read from a standard input that is not a terminal.
const maxScript = 1 << 20

// Interact runs the commands read from in. From a terminal, lines are edited, have a history, and are
// completed with the tab key; a command that fails prints its error, and the next one may be typed.
// Otherwise in is read to its end and is a script. It returns after quit, at the end of in, or when
// ctx ends; a read that is under way then still takes the next typed line.
func (c *Console) Interact(ctx context.Context, in *os.File) error {
	if !term.IsTerminal(int(in.Fd())) {
		text, err := readAll(ctx, in)
		if err != nil {
			return err
		}
		return c.Script(ctx, in.Name(), text)
	}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, c.out}, "fabric> ")
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return c.complete(ctx, line, pos)
	}
	c.setTerminal(t)
	defer c.setTerminal(nil)
	for {
		line, err := c.readLine(ctx, t, in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, term.ErrPasteIndicator):
			return err
		}
		if err := c.Line(ctx, line); errors.Is(err, ErrQuit) {
			return nil
		} else if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintln(c.out, err)
		}
	}
}

func (c *Console) setTerminal(t *term.Terminal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminal = t
}

// result is the result of a read.
type result struct {
	text string
	err  error
}

// readAll reads a script.
func readAll(ctx context.Context, in io.Reader) (string, error) {
	done := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(in, maxScript+1))
		if err == nil && len(text) > maxScript {
			err = fmt.Errorf("the script is longer than %d bytes", maxScript)
		}
		done <- result{string(text), err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readLine reads a line, for which the terminal is in raw mode: commands run in the ordinary one, so
// that Ctrl-C ends them as it ends other programs.
func (c *Console) readLine(ctx context.Context, t *term.Terminal, in *os.File) (string, error) {
	if w, h, err := term.GetSize(int(in.Fd())); err == nil && w > 0 && h > 0 {
		if err := t.SetSize(w, h); err != nil {
			return "", err
		}
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(in.Fd()), before)
	done := make(chan result, 1)
	go func() {
		line, err := t.ReadLine()
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// complete completes the word before the cursor: the first to a command, others to a node.
func (c *Console) complete(ctx context.Context, line string, pos int) (string, int, bool) {
	start := strings.LastIndexAny(line[:pos], " \t\"") + 1
	prefix := line[start:pos]
	var names []string
	if strings.TrimSpace(line[:start]) == "" {
		for _, s := range commands {
			verb, _, _ := strings.Cut(s.usage, " ")
			names = append(names, verb)
		}
	} else if v, err := c.fabric.View(ctx); err == nil {
		for i := range v.Nodes {
			names = append(names, v.Nodes[i].Name)
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(names) == 0 {
		return "", 0, false
	}
	common := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, common) {
			common = common[:len(common)-1]
		}
	}
	if start > 0 && line[start-1] != '"' && strings.Contains(common, " ") {
		common = `"` + common
	}
	if len(names) == 1 && strings.TrimSpace(line[:start]) == "" {
		common += " "
	}
	return line[:start] + common + line[pos:], start + len(common), true
}
