// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how wide a line of Go is at most, with 4 columns a tab.
const maxColumns = 120

// Lines of Go fit a screen. Only a string that is long itself may pass the edge, and lines of raw strings.
func TestLineWidth(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if files++; bytes.Contains(src[:min(len(src), 400)], []byte("Code generated")) {
			return nil
		}
		free := longStrings(src)
		for i, line := range strings.Split(string(src), "\n") {
			if n := columns(line); n > maxColumns && !free[i+1] {
				t.Errorf("%s:%d: %d columns, more than %d: break the line", path, i+1, n, maxColumns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 1000 {
		t.Errorf("only %d files were read", files)
	}
}

// columns returns how wide a line is.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// longStrings returns the lines of src with a string of more than a third of the width, lines of raw strings, and lines
// with a directive, which has to stand in one line.
func longStrings(src []byte) map[int]bool {
	lines := make(map[int]bool)
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		first := file.Line(pos)
		switch {
		case tok == token.EOF:
			return lines
		case tok == token.COMMENT && (strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "/*")),
			tok == token.STRING && (text[0] == '`' || len(text) > maxColumns/3):
			for n := range strings.Count(text, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
}
